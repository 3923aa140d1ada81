"""Reading files that people hand in (tables, fields, YAML) as plain data; judges nothing."""
