"""ADMMBO: an augmented Lagrangian by alternating directions (Ariafar, Coll-Font, Brooks and Dy, 2019)."""

from dataclasses import dataclass
from typing import Literal

from fieldcraft.models.named_algorithm import MULTISTART, Words, start


@dataclass(frozen=True)
class ADMMBO:
    """exact_gp x admmbo x multistart: trials for the objective and for each constraint take turns.

    Args:
        preset: The only one.
    """

    preset: Literal["default"] = "default"

    def words(self, dimension: int, batch: int) -> Words:
        """See Sentence.words."""
        begin = start(dimension)
        return {
            "start": begin,
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "admmbo", "start": begin["n"]},
            "maximizer": dict(MULTISTART),
            "constraints": {"surrogate": {"kind": "exact_gp"}},
        }
