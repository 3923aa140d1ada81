"""Analyses of a campaign's records, with no torch and no solver: best design, feasibility, noise."""
