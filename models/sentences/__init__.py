"""One file a sentence: the file's name is its kind."""
