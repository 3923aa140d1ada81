"""Readers of files that people hand in (tables, fields, YAML): they return plain data and do not check its meaning."""
