"""Score weighted by the probability that the design is feasible (Gardner et al., 2014)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score
from fieldcraft.models.capability import Capability
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.feasibility.pending import Believing
from fieldcraft.models.observations import Observations


@dataclass(frozen=True)
class Probability:
    """score(x) P[all constraints hold at x, and there is a result]; with log_ei it is constrained expected improvement.

    If no observed point is believed feasible, there is no value to improve on, and only the probability is maximised
    (Gelbart, Snoek and Adams, 2014).
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.SCALED})

    def constrained(
        self, score: Score, scale: Scale, posterior: ConstrainedPosterior, data: Observations, pending: Tensor
    ) -> "_Weighted":
        """The weighted score (see Rule.constrained).

        Raises:
            ValueError: the score is neither a positive number nor the logarithm of one.
        """
        if scale == "free":
            raise ValueError(
                "The rule `probability` multiplies the score, and this acquisition's may be negative: use the rule "
                "`bound`, or the acquisition log_ei."
            )
        believing = Believing(posterior, pending)
        if not posterior.read_feasible(torch.tensor(data.X)).any():
            return _Weighted(None, scale, believing)
        return _Weighted(score, scale, believing)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """A score times the probability of feasibility, or that probability alone; as logarithms if the score is one."""

    score: Score | None
    scale: Scale
    believing: Believing

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,) (see Score.value)."""
        log_feasible = self.believing.given(chosen).log_feasible(X)
        if self.score is None:
            return log_feasible
        own = self.score.value(X, slot, chosen)
        return own + log_feasible if self.scale == "log" else own * log_feasible.exp()
