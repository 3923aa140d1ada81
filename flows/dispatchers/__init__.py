"""Places to run a simulation, one file each."""
