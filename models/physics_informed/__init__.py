"""Surrogates that use a differential equation: residuals, solution bases, joint GPs, PINNs."""
