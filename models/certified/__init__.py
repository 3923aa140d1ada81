"""Global search with a proof: boxes, bounds, piecewise kernels, the MIQP."""
