"""The surrogate that predicts the trials best, chosen by evidence in every iteration."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, middle_first


@dataclass(frozen=True)
class Auto(OnePreset):
    """auto x log_ei x multistart."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": middle_first(dimension),
            "surrogate": {"kind": "auto"},
            "acquisition": {"kind": "log_ei"},
            "maximizer": dict(MULTISTART),
        }
