"""One file an acquisition: the file's name is its kind."""
