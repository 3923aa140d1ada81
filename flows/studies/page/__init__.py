"""A study as page, text and MLflow runs."""
