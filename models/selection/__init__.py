"""Choosing among surrogates by predictive evidence (``auto``)."""
