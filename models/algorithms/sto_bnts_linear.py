"""STO-BNTS-Linear (Dai et al., 2022): the same on tangent features, where training is ridge regression."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.algorithms.sto_bnts import PAPER, PAPER_MAXIMIZER
from fieldcraft.models.named_algorithm import EVERYWHERE, MULTISTART, Words, start


@dataclass(frozen=True)
class STOBNTSLinear:
    """sampled_linear x thompson x multistart: the exact minimiser, without any training, for each design.

    Args:
        preset: ``default``: the options that this project found to work. ``paper``: the raw kernel of two
            hidden layers of 256 relu (weights of 1.5, biases of 0.05 over the root of the fan-in), noise 0.1,
            unperturbed targets; 10,000 candidates everywhere and 100 searches by gradient.
    """

    preset: Literal["default", "paper"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        paper = self.preset == "paper"
        return {
            "start": start(dimension, "random" if paper else "sobol"),
            "surrogate": {"kind": "sampled_linear", **(PAPER if paper else {})},
            "acquisition": dict(EVERYWHERE) if paper else {"kind": "thompson"},
            "maximizer": dict(PAPER_MAXIMIZER if paper else MULTISTART),
        }
