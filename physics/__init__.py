"""Problems, search spaces and simulators: mathematics of the physical side, in physical units."""
