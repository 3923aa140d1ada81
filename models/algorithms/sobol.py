"""Scrambled Sobol sequence (Sobol', 1967)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import OnePreset, Words, start


@dataclass(frozen=True)
class Sobol(OnePreset):
    """Evenly spread designs, without a model."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {"start": start(dimension)}
