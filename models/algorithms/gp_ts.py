"""Gaussian process with Thompson sampling (Chowdhury and Gopalan, 2017)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, start


@dataclass(frozen=True)
class GPTS(OnePreset):
    """exact_gp x thompson x multistart: one function drawn from the posterior for each place of a batch."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "thompson"},
            "maximizer": dict(MULTISTART),
        }
