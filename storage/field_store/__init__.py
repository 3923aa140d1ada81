"""Storage of fields on disk or in an object store."""
