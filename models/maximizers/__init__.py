"""One file a maximizer: the file's name is its kind."""
