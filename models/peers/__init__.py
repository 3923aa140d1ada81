"""One file a peer, a whole optimiser of another package: the file's name is its kind."""
