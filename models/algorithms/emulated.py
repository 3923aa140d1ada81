"""Gaussian process on the difference to an emulator, with expected improvement (Kennedy and O'Hagan, 2000)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words

# The emulator's best design, and Sobol designs that say how wrong it is.
_START = 5


@dataclass(frozen=True)
class Emulated(OnePreset):
    """emulated_field x log_ei x multistart, after the emulator's best design and four Sobol designs."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": {"proposer": {"kind": "emulated"}, "n": _START},
            "surrogate": {"kind": "emulated_field"},
            "acquisition": {"kind": "log_ei"},
            "maximizer": dict(MULTISTART),
        }
