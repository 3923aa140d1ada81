"""One file a proposer: the file's name is its kind."""
