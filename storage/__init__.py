"""Records, ledger, fields and tracking: what a campaign keeps, and how it survives a crash."""
