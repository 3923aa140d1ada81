"""Exact, additive and grouped Gaussian processes: kernels, fits, draws, box bounds."""
