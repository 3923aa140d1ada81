"""Gaussian process with a confidence bound (Srinivas et al., 2010)."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import MULTISTART, Words, start


@dataclass(frozen=True)
class GPUCB:
    """exact_gp x ucb x multistart."""

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "ucb"},
            "maximizer": dict(MULTISTART),
        }
