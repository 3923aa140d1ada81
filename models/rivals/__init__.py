"""Rivals, whole optimisers of other packages, one file each; the file's name is the kind."""
