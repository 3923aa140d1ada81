"""Levels of a campaign's simulator: built, checked, and as data of a model."""
