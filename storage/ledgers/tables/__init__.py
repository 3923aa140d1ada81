"""Schema and the row/record conversion."""
