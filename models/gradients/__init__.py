"""Gaussian processes that learn from values and from gradients."""
