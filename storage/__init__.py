"""Records, ledger, fields and tracking: the data of a campaign, kept so that they survive a crash."""
