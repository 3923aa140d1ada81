"""Gaussian process with Thompson sampling (Chowdhury and Gopalan, 2017)."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import MULTISTART, Words, start


@dataclass(frozen=True)
class GPTS:
    """exact_gp x thompson x multistart: one function drawn from the posterior for each place of a batch."""

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "thompson"},
            "maximizer": dict(MULTISTART),
        }
