"""Conversion at one border: specifications become components, records become arrays."""
