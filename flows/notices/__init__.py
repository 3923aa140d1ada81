"""Telling people: the ledger's notices, to webhook and command."""
