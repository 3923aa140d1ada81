"""Neural-BO (Phan-Trong, Tran-The and Gupta, 2023): Thompson sampling of a trained network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fieldcraft.models.named_algorithm import EVERYWHERE, MULTISTART, RAW_TRAINING, Words, start

_PAPER: Mapping[str, Any] = {**RAW_TRAINING, "init": "gaussian", "width": 500, "draw": "independent"}


@dataclass(frozen=True)
class NeuralBO:
    """tangent_network x thompson x multistart: the network's mean, its tangent features' variance.

    Args:
        preset: ``default``: the options that this project found to work. ``paper``: the raw kernel of one
            hidden layer of 500 relu, weights drawn at random, lambda 0.01, 50 gradient steps of 0.001 (Adam's
            here), nu 1 (the paper searches 0.1, 1 and 10) and a normal drawn at every point by itself,
            searched everywhere.
    """

    preset: Literal["default", "paper"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": {"kind": "tangent_network", **(_PAPER if paper else {})},
            "acquisition": dict(EVERYWHERE) if paper else {"kind": "thompson"},
            "maximizer": dict(MULTISTART),
        }
