"""Surrogates that know a differential equation: residuals, solution bases, joint GPs, PINNs."""
