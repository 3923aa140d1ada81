"""Elementary functions that problems are written with: interpolation, harmonics, cosines."""
