"""Scrambled Sobol sequence (Sobol', 1967)."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import Words, start


@dataclass(frozen=True)
class Sobol:
    """Evenly spread designs, without a model."""

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        return {"start": start(dimension)}
