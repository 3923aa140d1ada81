"""Specification of a campaign: the campaign file, and the registry of kinds."""
