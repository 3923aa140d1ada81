"""Data that a surrogate learns from, beside the results of its own campaign."""
