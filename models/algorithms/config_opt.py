"""CONFIG: optimism for objective and constraints alike (Xu, Jiang, Svetozarevic and Jones, 2023)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, start


@dataclass(frozen=True)
class ConfigOpt(OnePreset):
    """exact_gp x ucb x multistart where the lower bounds of all constraints are <= 0: argmin LCB_f s.t. LCB_c <= 0.

    Bounds are two standard deviations wide; the theory's widths need norms that are unknown in practice. If no design
    is within them the paper declares the problem infeasible; here the one with the least sum of violations is tried.
    """

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        rule = {"kind": "bound", "beta": 4.0, "fallback": "empty"}
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "ucb", "beta": 4.0},
            "maximizer": dict(MULTISTART),
            "constraints": {"surrogate": {"kind": "exact_gp"}, "rule": rule},
        }
