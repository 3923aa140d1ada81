"""Gaussian process with expected improvement (Jones et al., 1998; in logarithms: Ament et al., 2023)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, middle_first


@dataclass(frozen=True)
class GPEI(OnePreset):
    """exact_gp x log_ei x multistart: the usual form of Bayesian optimisation."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": middle_first(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "log_ei"},
            "maximizer": dict(MULTISTART),
        }
