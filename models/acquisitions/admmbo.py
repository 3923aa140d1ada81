"""Augmented Lagrangian by alternating directions (ADMMBO: Ariafar et al., 2019), one subproblem a trial."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.acquisition import Score
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.capability import Capability
from fieldcraft.models.feasibility.admm import Alternation, Iterate, TrialData
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.feasibility.pending import Believing
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import worth_at
from fieldcraft.models.scoring.criteria import LogImprovement
from fieldcraft.models.scoring.incumbent import hopeful
from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True)
class ADMMBO:
    """Expected improvement of the subproblem whose turn it is (see ``models.feasibility.admm``).

    Optimality: log E[(u+ - u(x))^+] for u(x) = f(x) + rho/2 sum_i ||x - z_i + y_i/rho||^2, f being learnt and the rest
    known. Feasibility of constraint i: E[(h+ - h(z))^+] for h(z) = 1[c_i(z) > 0] + rho/(2M) ||x - z + y_i/rho||^2, with
    P[c_i(z) > 0] from the constraint's posterior. u+ and h+ are the least at the trials. Distances are in encoded
    coordinates and f in targets. Where designs have failed, both count by the probability of a result. Without
    constraints the score is expected improvement.

    An algorithm holds no state: x, z, y and rho are computed again from the results, trial by trial. The paper
    evaluates objective and constraints apart; here a trial reads all of them, and counts for every subproblem. In a
    batch each place has the turn that follows if those before it are read at their means.

    Args:
        start: Trials that come before any model, >= 0.
        each: Trials in a row for one subproblem, >= 1.
        rho: First penalty, > 0.
        M: Weight of a violated constraint, > 0.

    Raises:
        ValueError: a number is out of its range.
    """

    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.CONSTRAINED})

    start: int = 0
    each: int = 1
    rho: float = 0.1
    M: float = 50.0

    def __post_init__(self) -> None:
        refuse_below("start", self.start, 0)
        refuse_below("each", self.each)
        refuse_non_positive("rho", self.rho)
        refuse_non_positive("M", self.M)

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> Score:
        """The score of the subproblem whose turn it is (see Acquisition.score); pending points are believed."""
        if not isinstance(posterior, ConstrainedPosterior):
            return LogEI().score(posterior, data, pending, q, rng)
        order = Alternation(self.start, self.each, self.rho, self.M)
        readings = TrialData(data.X, data.targets, data.constraints <= 0)
        return _Turns(order, readings, Believing(posterior, pending), hopeful(data, pending))


@dataclass(frozen=True, eq=False)
class _Turns:
    """The score of each place: that of the subproblem that follows if the places before are read at their means."""

    order: Alternation
    readings: TrialData
    believing: Believing
    waiting: Tensor  # pending points that may give a result, shape (k, d): no trials yet, but not to be gained again
    _scores: dict[bytes, Score] = field(default_factory=dict, repr=False)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,) (see Score.value)."""
        key = chosen.detach().numpy().tobytes()
        if key not in self._scores:
            self._scores[key] = self._score(chosen.detach())
        return self._scores[key].value(X, slot, chosen)

    def _score(self, chosen: Tensor) -> Score:
        read = self._with(self.readings, chosen)
        seen, now = self._with(read, self.waiting), self.order.replayed(read)
        if now.turn is None:
            return _Optimality.of(self.believing, now, torch.tensor(seen.X))
        least = float(self.order.feasibility(now, now.turn, seen).min())
        weight = now.rho / (2 * self.order.M)
        return _Feasibility(self.believing, now.turn, torch.tensor(now.target(now.turn)), weight, least)

    def _with(self, readings: TrialData, X: Tensor) -> TrialData:
        """The results, followed by the means at X (k, d) as further results."""
        if len(X) == 0:
            return readings
        with torch.no_grad():
            f, g = self.believing.posterior.mean_var(X)[0], self.believing.posterior.excess(X)[0]
        return readings.extended(TrialData(X.numpy(), f.numpy(), g.numpy() <= 0))


@dataclass(frozen=True, eq=False)
class _Augmented:
    """Marginals of f, with the augmentation added to the mean."""

    beliefs: Posterior
    centres: Tensor  # z_i - y_i/rho, shape (c, d)
    rho: float

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self.beliefs.mean_var(X)
        return mean + self.rho / 2 * (X[:, None] - self.centres).square().sum((1, 2)), variance


@dataclass(frozen=True, eq=False)
class _Optimality:
    """Log expected improvement of the augmented objective, plus the log probability of a result."""

    believing: Believing
    augmented: _Augmented
    least: Tensor

    @classmethod
    def of(cls, believing: Believing, now: Iterate, X: Tensor) -> "_Optimality":
        augmented = _Augmented(believing.posterior, torch.tensor(now.z - now.y / now.rho), now.rho)
        with torch.no_grad():
            return cls(believing, augmented, augmented.mean_var(X)[0].min())

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,) (see Score.value)."""
        beliefs = self.believing.given(chosen)
        worth = worth_at(LogImprovement(float(self.least)), replace(self.augmented, beliefs=beliefs), X)
        return worth if beliefs.hidden is None else worth + beliefs.hidden.log_probability(X)


@dataclass(frozen=True, eq=False)
class _Feasibility:
    """E[(h+ - h(z))^+] where it can be positive; negative elsewhere, growing with the distance from there."""

    believing: Believing
    constraint: int
    target: Tensor
    weight: float
    least: float

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """P[c <= 0] r^+ + P[c > 0] (r - 1)^+ with room r = h+ - weight ||z - target||^2, or r where that is < 0."""
        room = self.least - self.weight * (X - self.target).square().sum(1)
        beliefs = self.believing.given(chosen)
        mean, sd = beliefs.excess(X)
        holds = torch.special.ndtr(-mean[:, self.constraint] / sd[:, self.constraint])
        expected = holds * room.clamp_min(0) + (1 - holds) * (room - 1).clamp_min(0)
        if beliefs.hidden is not None:
            expected = expected * beliefs.hidden.log_probability(X).exp()
        return torch.where(room > 0, expected, room)
