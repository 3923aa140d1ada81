"""Surrogates that use a differential equation: joint Gaussian processes, networks trained on residuals, engines."""
