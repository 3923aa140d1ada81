"""Tangent (neural) processes: features, kernel, evidence, posterior, training."""
