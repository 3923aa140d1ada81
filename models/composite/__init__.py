"""Beliefs about an objective that is computed from several outputs, through beliefs about each of these."""
