"""How the scores of a contest between surrogates stand among the metrics of its posterior; imports no torch."""

from collections.abc import Mapping

SCORE = "score."
"""Begins the names of the metrics that hold the scores."""


def scores_of(metrics: Mapping[str, float]) -> dict[str, float]:
    """The scores among a model's metrics, by surrogate; none where it was chosen among no others."""
    return {name.removeprefix(SCORE): value for name, value in metrics.items() if name.startswith(SCORE)}
