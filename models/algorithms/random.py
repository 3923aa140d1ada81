"""Random search (Bergstra and Bengio, 2012)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import OnePreset, Words, start


@dataclass(frozen=True)
class Random(OnePreset):
    """Independent uniform designs, without a model."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {"start": start(dimension, "random")}
