"""Tables of the ledger, and conversion between rows and records."""
