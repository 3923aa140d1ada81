"""UCB-C: the objective's optimistic bound over the optimistic feasible region (Nguyen et al., 2024)."""

from dataclasses import dataclass

from fieldcraft.models.named_algorithm import MULTISTART, OnePreset, Words, start


@dataclass(frozen=True)
class UCBC(OnePreset):
    """exact_gp x ucb x multistart where the lower bounds of all constraints are <= 0; bounds widen with the trials.

    This is the paper's algorithm for objective and constraints that are read together; it differs from config_opt only
    in the widths. The theory's weight, for a finite set of designs, is replaced by 0.2 d log(2 t); that of the paper's
    experiments is not stated. If the region is empty, the paper's code minimises the largest violation; here the sum of
    violations is minimised.
    """

    def words(self, dimension: int, batch: int) -> Words:
        """See NamedAlgorithm.words."""
        rule = {"kind": "bound", "beta": "growing", "fallback": "empty"}
        return {
            "start": start(dimension),
            "surrogate": {"kind": "exact_gp"},
            "acquisition": {"kind": "ucb", "beta": "growing"},
            "maximizer": dict(MULTISTART),
            "constraints": {"surrogate": {"kind": "exact_gp"}, "rule": rule},
        }
