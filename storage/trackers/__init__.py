"""MLflow tracking: campaigns, cells of studies, names and errors."""
