"""Neural UCB (Zhou, Li and Gu, 2020): a confidence bound on a trained network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fieldcraft.models.named_algorithm import MULTISTART, RAW_TRAINING, Words, start

_PAPER: Mapping[str, Any] = {**RAW_TRAINING, "init": "antisymmetric", "variance": "diagonal"}


@dataclass(frozen=True)
class NeuralUCB:
    """tangent_network x ucb x multistart, with the exact variance.

    Args:
        preset: ``default``: the options that this project found to work. ``paper``: the raw relu kernel and the
            diagonal of its p x p matrix, which approximates the variance (correlation about 0.6), and one
            deviation of confidence.
    """

    preset: Literal["default", "paper"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": {"kind": "tangent_network", **(_PAPER if paper else {})},
            "acquisition": {"kind": "ucb", **({"beta": 1.0} if paper else {})},
            "maximizer": dict(MULTISTART),
        }
