"""Global search with proven bounds: boxes, bounds, piecewise kernels, the MIQP."""
