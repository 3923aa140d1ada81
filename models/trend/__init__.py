"""Gaussian process about a polynomial whose coefficients are unknown too, and when the results ask for it."""
