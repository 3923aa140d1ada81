"""Gaussian processes with noisy expected hypervolume improvement (Daulton et al., 2021; Ament et al., 2023)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, short_start


@dataclass(frozen=True)
class GPEHVI(OnePreset):
    """exact_gp x log_nehvi x multistart: the usual form of Bayesian optimisation of several objectives.

    The process of each output has the kernel that predicts it better (``kernel: chosen``).
    Unknown constraints enter by their probability, with probing designs (rule ``probing``).
    """

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": short_start(dimension),
            "surrogate": {"kind": "exact_gp", "kernel": "chosen"},
            "acquisition": {"kind": "log_nehvi"},
            "maximizer": dict(MULTISTART),
        }
