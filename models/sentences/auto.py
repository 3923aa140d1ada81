"""The surrogate that predicts the trials best, chosen by evidence in every iteration."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import MULTISTART, Words, start


@dataclass(frozen=True)
class Auto:
    """auto x log_ei x multistart."""

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        return {
            "start": start(dimension),
            "surrogate": {"kind": "auto"},
            "acquisition": {"kind": "log_ei"},
            "maximizer": dict(MULTISTART),
        }
