"""Results as numbers: their scaling."""
