"""Score restricted to designs where the optimistic bound of every constraint holds (Xu et al., 2023; Neural-CBO)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score, centre_of
from fieldcraft.models.capability import Capability
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.feasibility.pending import Believing
from fieldcraft.models.numerics.checks import refuse_non_positive
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.confidence_weight import weight_of
from fieldcraft.models.scoring.gradients import with_gradients
from fieldcraft.models.surrogate import Informed, Posterior

_HIDDEN_WIDTH = 2.0


@dataclass(frozen=True)
class Bound:
    """score(x) subject to mean_k(x) - sqrt(beta) sd_k(x) <= 0 for every constraint k.

    Until an observed point is believed feasible, the sum of the positive bounds is minimised instead and, where it is
    zero, the probability of feasibility is maximised, since there is no feasible value yet to improve on. Where results
    are exact, a point is feasible if its result is.

    Args:
        beta: Weight >= 0 of the variance (dimensionless); the bound uses its square root. "growing": 0.2 d log(2 t)
            for d encoded coordinates and t trials (Kandasamy et al., 2015). "gamma": the theory's width, for each
            constraint B + R sqrt(gamma + 2 + 2 log(1/failure)) with gamma its surrogate's information gain
            (Neural-CBO: Phan-Trong, 2024, chapter 4), and two standard deviations for designs that fail.
        fallback: When violation is minimised: until an observed point is ``believed`` feasible, or only if the
            maximizer finds the region of the bounds ``empty`` (as optimistic methods do: Xu et al., 2023).
        norm: B > 0, the norm of a constraint in standard deviations of its results (with "gamma").
        subgaussian: R > 0 of the results' noise, in the same unit (with "gamma").
        failure: Probability with which the bounds may fail (with "gamma").

    Raises:
        ValueError: a number is out of its range.
    """

    beta: float | Literal["growing", "gamma"] = 4.0
    fallback: Literal["believed", "empty"] = "believed"
    norm: float = 1.0
    subgaussian: float = 0.1
    failure: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.beta, str) and not (math.isfinite(self.beta) and self.beta >= 0):
            raise ValueError(
                f'beta is {self.beta}: give a finite number >= 0 (4 is two standard deviations), "growing" or "gamma".'
            )
        refuse_non_positive("norm", self.norm)
        refuse_non_positive("subgaussian", self.subgaussian)
        if not 0 < self.failure < 1:
            raise ValueError(f"failure is {self.failure}: give a probability between 0 and 1.")

    @property
    def requires(self) -> frozenset[Capability]:
        """Posteriors of the constraints that know their information gain, if beta is "gamma"; else nothing."""
        return frozenset({Capability.INFORMED}) if self.beta == "gamma" else frozenset()

    def constrained(
        self,
        score: Score,
        scale: Scale,
        posterior: ConstrainedPosterior,
        data: Observations,
        pending: Tensor,
        proposed: int,
    ) -> "_Bounded | _LeastViolation":
        """The bounded score (see Rule.constrained)."""
        widths = self.widths(posterior, data)
        believing, X = Believing(posterior, pending), torch.tensor(data.X)
        feasible = posterior.trials_feasible(data)
        if self.fallback == "believed" and not feasible.any():
            return _LeastViolation(believing, widths)
        return _Bounded(score, believing, widths, X[feasible])

    def widths(self, posterior: ConstrainedPosterior, data: Observations) -> tuple[float, ...]:
        """Widths, in standard deviations, of the bound of each constraint and, if designs have failed, of failing.

        Raises:
            ValueError: beta is "gamma" and a constraint's surrogate does not know its information gain.
        """
        if self.beta == "gamma":
            own = tuple(self._theory(_gain(each)) for each in posterior.constraints)
            return own if posterior.hidden is None else (*own, _HIDDEN_WIDTH)
        return (math.sqrt(weight_of(self.beta, data.X.shape[1], len(data))),) * posterior.columns

    def _theory(self, gain: float) -> float:
        return self.norm + self.subgaussian * math.sqrt(gain + 2 + 2 * math.log(1 / self.failure))


def _gain(posterior: Posterior) -> float:
    if not isinstance(posterior, Informed):
        raise ValueError(
            f"beta is gamma, and a {type(posterior).__name__} does not know its information gain: give a number, or "
            "learn the constraints by tangent_network or exact_gp."
        )
    return posterior.information_gain()


@dataclass(frozen=True, eq=False)
class _Bounded:
    """A score with the optimistic bounds as its excesses (see BoundedScore)."""

    score: Score
    believing: Believing
    widths: tuple[float, ...]
    anchors: Tensor

    @property
    def searched_about(self) -> Tensor | None:
        """The point (d,) about which the score is searched, if there is a feasible one; None for the whole space."""
        return centre_of(self.score) if len(self.anchors) else None

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """The score at X (n, d), feasible or not, shape (n,)."""
        return self.score.value(X, slot, chosen)

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The score at X (n, d), shape (n,), and its gradients (n, d)."""
        return with_gradients(self.score, X, slot, chosen)

    def excess(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Optimistic bounds at X (n, d), shape (n, k)."""
        return self.believing.given(chosen).lower_excess(X, self.widths)


@dataclass(frozen=True, eq=False)
class _LeastViolation:
    """-sum_k [bound_k]^+, or the probability of feasibility where that sum is zero."""

    believing: Believing
    widths: tuple[float, ...]

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,) (see Score.value)."""
        marginals = self.believing.given(chosen).marginals(X)
        violation = marginals.lower(self.widths).clamp_min(0).sum(dim=1)
        if (violation > 0).all():
            return -violation
        return torch.where(violation > 0, -violation, marginals.log_feasible().exp())

    def violations(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Optimistic bounds at X (n, d), shape (n, k) (see ViolationScore)."""
        return self.believing.given(chosen).lower_excess(X, self.widths)
