"""Simulators, one file each: the file is the kind."""
