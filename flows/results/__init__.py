"""Measurements by people: record, correct, retract, import, the watched inbox."""
