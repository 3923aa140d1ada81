"""What a transaction does, one file a concern."""
