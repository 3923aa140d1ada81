"""Score weighted by the probability that the design is feasible (Gardner et al., 2014)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fieldcraft.models.acquisition import Scale, Score, ScreenedScore, anchors_of
from fieldcraft.models.capability import Capability
from fieldcraft.models.feasibility.constrained import LEAST_SD, ConstrainedPosterior
from fieldcraft.models.feasibility.pending import Believing
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.criteria import LogProbability
from fieldcraft.models.scoring.gradients import automatic, chained, with_gradients
from fieldcraft.models.surrogate import MomentsWithSlopes


@dataclass(frozen=True)
class Probability:
    """score(x) P[all constraints hold at x, and there is a result]; with log_ei it is constrained expected improvement.

    If no observed point is believed feasible, there is no value to improve on, and only the probability is maximised
    (Gelbart, Snoek and Adams, 2014). Where results are exact, a point is feasible if its result is.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.SCALED})

    def constrained(
        self,
        score: Score,
        scale: Scale,
        posterior: ConstrainedPosterior,
        data: Observations,
        pending: Tensor,
        proposed: int,
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
        if not posterior.trials_feasible(data).any():
            return _Weighted(None, scale, believing)
        return _Weighted(score, scale, believing)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """A score times the probability of feasibility, or that probability alone; as logarithms if the score is one.

    Args:
        score: The score; None for the probability alone.
        scale: Kind of its number.
        believing: Beliefs about feasibility.
        powers: Powers of the probability beside a score, of the places of a batch in turn.
    """

    score: Score | None
    scale: Scale
    believing: Believing
    powers: tuple[float, ...] = (1.0,)

    @property
    def anchors(self) -> Tensor | None:
        """See AnchoredScore."""
        return None if self.score is None else anchors_of(self.score)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Score at X (n, d), shape (n,) (see Score.value)."""
        log_feasible = self.believing.given(chosen).log_feasible(X)
        if self.score is None:
            return log_feasible
        return self._times(self.score.value(X, slot, chosen), self._power(chosen) * log_feasible)

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (n,) and their gradients (n, d) at X (n, d)."""
        beliefs = self.believing.given(chosen)
        if isinstance(self.score, AnalyticScore) and beliefs.all_slopes is not None:
            at = beliefs.all_slopes(X)
            own, gradients = self.score.at_moments(at.of(0), chosen)
            log_feasible, slopes = _sloped(beliefs, X, at.of(slice(1, None)))
        else:
            log_feasible, slopes = _sloped(beliefs, X)
            if self.score is None:
                return log_feasible, slopes
            own, gradients = with_gradients(self.score, X, slot, chosen)
        log_feasible, slopes = self._power(chosen) * log_feasible, self._power(chosen) * slopes
        if self.scale == "log":
            return own + log_feasible, gradients + slopes
        chance = log_feasible.exp()
        return own * chance, chance[:, None] * (gradients + own[:, None] * slopes)

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value`` at X (n, d), shape (n,) (see ScreenedScore)."""
        log_feasible, score = self.believing.given(chosen).coarse.log_feasible(X), self.score
        if score is None:
            return log_feasible
        own = score.screened if isinstance(score, ScreenedScore) else score.value
        return self._times(own(X, slot, chosen), self._power(chosen) * log_feasible)

    def remarks(self, slot: int) -> Mapping[str, str]:
        """A remark on a design for which the probability counts less (see RemarkedScore)."""
        power = self.powers[slot % len(self.powers)]
        if self.score is None or power == 1.0:
            return {}
        said = (
            f"this design looks where feasibility is in doubt: one of {len(self.powers)} weighs the probability of "
            f"feasibility to the power {power:g}"
        )
        return {"probing": said}

    def _power(self, chosen: Tensor) -> float:
        return self.powers[len(chosen) % len(self.powers)]

    def _times(self, own: Tensor, log_feasible: Tensor) -> Tensor:
        return own + log_feasible if self.scale == "log" else own * log_feasible.exp()


def _sloped(posterior: ConstrainedPosterior, X: Tensor, at: MomentsWithSlopes | None = None) -> tuple[Tensor, Tensor]:
    """``log_feasible`` (n,) and its gradient (n, d) at X (n, d), in closed form where all constraints have one.

    Args:
        posterior: Beliefs about the constraints.
        X: Encoded points.
        at: The constraints' moments at X, if they are known already.
    """
    if at is None and posterior.constraints:
        if posterior.slopes is None:
            return automatic(posterior.log_feasible, X)
        at = posterior.slopes(X)
    total, gradient = X.new_zeros(len(X)), torch.zeros_like(X)
    if posterior.hidden is not None:
        total, gradient = automatic(posterior.hidden.log_probability, X)
    if at is not None:
        values, own = chained(LogProbability(posterior.zeros.numpy()[:, None]), at, LEAST_SD)
        total, gradient = total + torch.from_numpy(values.sum(0)), gradient + torch.from_numpy(own.sum(0))
    return total, gradient
