"""How a field lies on disk or in an object store."""
