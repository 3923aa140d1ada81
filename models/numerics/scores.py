"""Scores of a contest between surrogates, as entries of a posterior's metrics; imports no torch."""

from collections.abc import Mapping

SCORE = "score."
"""Begins the names of the metrics that hold the scores."""

LEAST_SD = 1e-3
"""Least error, in standardised targets, that a prediction counts with: nobody is to win by digits that no design
depends on."""


def scores_of(metrics: Mapping[str, float]) -> dict[str, float]:
    """Scores in a model's metrics, by surrogate; empty if it was not chosen among several."""
    return {name.removeprefix(SCORE): value for name, value in metrics.items() if name.startswith(SCORE)}
