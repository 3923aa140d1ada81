"""Delivery of the ledger's notices to people, by webhook and command."""
