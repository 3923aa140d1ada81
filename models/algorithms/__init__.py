"""Named algorithms, one file each; the file's name is the kind."""
