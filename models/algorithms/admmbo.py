"""ADMMBO: an augmented Lagrangian by alternating directions (Ariafar, Coll-Font, Brooks and Dy, 2019)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, start


@dataclass(frozen=True)
class ADMMBO(OnePreset):
    """exact_gp x admmbo x multistart: trials for the objective and for each constraint take turns."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        begin = start(dimension)
        return {
            "start": begin,
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "admmbo", "start": begin["n"]},
            "maximizer": dict(MULTISTART),
            "constraints": {"surrogate": {"kind": "exact_gp"}},
        }
