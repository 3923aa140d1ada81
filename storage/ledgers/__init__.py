"""Back ends of the ledger, one file each; the only place that imports SQLAlchemy."""
