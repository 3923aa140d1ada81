"""Needs that the parts of a campaign have of each other."""
