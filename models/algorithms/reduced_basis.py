"""The simulator's equations on the fields of the runs, with the design of the least lower bound next."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words

_START = 5


@dataclass(frozen=True)
class ReducedBasis(OnePreset):
    """reduced_basis x ucb x multistart, after the emulator's best design and four Sobol designs."""

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        return {
            "start": {"proposer": {"kind": "emulated"}, "n": _START},
            "surrogate": {"kind": "reduced_basis"},
            "acquisition": {"kind": "ucb", "beta": 4.0},
            "maximizer": dict(MULTISTART),
        }
