"""Constrained expected improvement (Schonlau et al., 1998; Gardner et al., 2014; in logarithms: Ament et al., 2023)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, start


@dataclass(frozen=True)
class CEI(OnePreset):
    """exact_gp x log_ei x multistart, times the probability that every constraint holds, each learnt by an exact_gp.

    If no trial is believed feasible, only the probability is maximised (Gelbart, Snoek and Adams, 2014).
    """

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "log_ei"},
            "maximizer": dict(MULTISTART),
            "constraints": {"surrogate": {"kind": "exact_gp"}, "rule": {"kind": "probability"}},
        }
