"""Bayesian linear regression on given features: conditioning, evidence, Fourier features."""
