"""Campaigns from Python and notebooks: ``fieldcraft.campaign`` and what it returns."""
