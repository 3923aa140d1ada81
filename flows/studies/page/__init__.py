"""A study as a page, as text and as MLflow runs."""
