"""MLflow details behind tracking.py."""
