"""Outputs of a problem: what is measured, and what is computed from that by a formula, or as a distance."""
