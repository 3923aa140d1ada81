"""Gaussian process with a confidence bound (Srinivas et al., 2010)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, start


@dataclass(frozen=True)
class GPUCB(OnePreset):
    """exact_gp x ucb x multistart."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "ucb"},
            "maximizer": dict(MULTISTART),
        }
