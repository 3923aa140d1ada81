"""Neural Thompson sampling (Zhang et al., 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fieldcraft.models.named_algorithm import EVERYWHERE, MULTISTART, RAW_TRAINING, Words, start

_PAPER: Mapping[str, Any] = {**RAW_TRAINING, "init": "antisymmetric", "variance": "diagonal", "draw": "independent"}


@dataclass(frozen=True)
class NeuralTS:
    """tangent_network x thompson x multistart with a normal drawn at every point by itself, as in its bandits.

    Neural-BO differs by drawing whole functions.

    Args:
        preset: ``default``: the options that this project found to work. ``paper``: the raw relu kernel and the
            diagonal of its p x p matrix, which is an approximation of the variance (correlation about 0.6); draws
            are searched everywhere.
    """

    preset: Literal["default", "paper"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": {"kind": "tangent_network", "draw": "independent", **(_PAPER if paper else {})},
            "acquisition": dict(EVERYWHERE) if paper else {"kind": "thompson"},
            "maximizer": dict(MULTISTART),
        }
