"""Coordinates in which models see designs where several encoded points are one design."""
