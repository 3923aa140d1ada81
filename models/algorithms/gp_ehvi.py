"""Gaussian processes with noisy expected hypervolume improvement (Daulton et al., 2021; Ament et al., 2023)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, short_start


@dataclass(frozen=True)
class GPEHVI(OnePreset):
    """trend_gp x log_nehvi x multistart: the usual form of Bayesian optimisation of several objectives.

    The process of each output has the kernel, and is about the polynomial, that predicts it best.
    Unknown constraints enter by their probability, with probing designs (rule ``probing``).
    """

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": short_start(dimension),
            "surrogate": {"kind": "trend_gp"},
            "acquisition": {"kind": "log_nehvi"},
            "maximizer": dict(MULTISTART),
        }
