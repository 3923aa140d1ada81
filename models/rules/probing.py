"""Score weighted by the probability that the design is feasible, and for some designs by a root of that."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score
from fieldcraft.models.capability import Capability
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.observations import Observations
from fieldcraft.models.rules.probability import Probability

_POWER = 0.3


@dataclass(frozen=True)
class Probing:
    """score(x) P[all constraints hold at x, and there is a result]^p, with p = 0.3 for every third design, else p = 1.

    A front may have a part in a region whose feasibility is in doubt. One step ahead that region is worth less than a
    small but sure gain, trial after trial. A design that probes discounts the improvement there less. While no observed
    point is believed feasible, and for all other designs, this is the rule ``probability``.

    Args:
        every: Number of designs of which one probes, >= 2.

    Raises:
        ValueError: every < 2.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.SCALED})

    every: int = 3

    def __post_init__(self) -> None:
        if self.every < 2:
            raise ValueError(f"every is {self.every}: of at least 2 designs one probes; or use the rule `probability`.")

    def constrained(
        self,
        score: Score,
        scale: Scale,
        posterior: ConstrainedPosterior,
        data: Observations,
        pending: Tensor,
        proposed: int,
    ) -> Score:
        """The weighted score (see Rule.constrained); designs are counted as they were proposed.

        A design that was rejected or failed is counted like any other, so that it does not repeat its turn.

        Raises:
            ValueError: the score is neither a positive number nor the logarithm of one.
        """
        powers = tuple(_POWER if (proposed + place) % self.every == 0 else 1.0 for place in range(self.every))
        return replace(Probability().constrained(score, scale, posterior, data, pending, proposed), powers=powers)
