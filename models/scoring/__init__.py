"""Scores shared by acquisitions: analytic scores, incumbent, separable sums."""
