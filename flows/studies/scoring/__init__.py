"""Regret, violation, certificates, tests and ranks, from finished cells."""
