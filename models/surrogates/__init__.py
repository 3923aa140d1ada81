"""One file a surrogate: the file's name is its kind."""
