"""Functions of mean and standard deviation as scores of any posterior, conditioned on pending trials."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.scoring.criteria import LEAST_SD, Criterion, evaluated
from fieldcraft.models.scoring.gradients import automatic, chained
from fieldcraft.models.scoring.incumbent import likely_best
from fieldcraft.models.surrogate import Moments, MomentsWithSlopes, Posterior, Slopes, coarse, slopes_of


def worth_at(criterion: Criterion, beliefs: Moments, X: Tensor) -> Tensor:
    """A criterion of the moments at X (n, d), shape (n,), differentiable."""
    mean, variance = beliefs.mean_var(X)
    return evaluated(criterion, mean, variance.clamp_min(LEAST_SD**2).sqrt())


@dataclass(frozen=True, eq=False)
class AnalyticScore:
    """Score of an analytic acquisition; pending trials and earlier places count as read at their own mean.

    Args:
        posterior: Beliefs from the data.
        pending: Encoded points without a result, shape (k, d).
        acquisition: Function from the points (k, d) that are believed to the criterion to maximise (see MomentScore).
        optimism: See MomentScore.
        before: Encoded points of the places before the one for which ``worth`` is computed, shape (j, d); None for
            none.
        peak: See PeakedScore.
        faint: See PeakedScore.
    """

    posterior: Posterior
    pending: Tensor
    acquisition: Callable[[Tensor], Criterion]
    optimism: float | None = None
    before: Tensor | None = None
    peak: Tensor | None = None
    faint: float = -math.inf
    # A place is asked about hundreds of times with the same points chosen: condition on them once.
    _built: dict[bytes, tuple[Criterion, Posterior, Slopes | None]] = field(default_factory=dict, repr=False)

    @cached_property
    def suggested(self) -> Tensor | None:
        """See SuggestedScore: where the beliefs know their lowest valleys."""
        return likely_best(self.posterior)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Acquisition at X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        criterion, beliefs, _ = self._for(chosen)
        return worth_at(criterion, beliefs, X)

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d); in closed form if the posterior's moments have one."""
        criterion, beliefs, slopes = self._for(chosen)
        if slopes is None:
            return automatic(partial(worth_at, criterion, beliefs), X)
        return _chained(criterion, slopes(X))

    def at_moments(self, at: MomentsWithSlopes, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """``value_and_grad`` where the moments of ``fantasized`` are known already."""
        return _chained(self._for(chosen)[0], at)

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value`` at X (n, d), shape (n,), at less cost where the posterior has a coarse form."""
        criterion, beliefs, _ = self._for(chosen)
        return worth_at(criterion, coarse(beliefs), X)

    def fantasized(self, chosen: Tensor) -> Posterior:
        """The posterior with pending points and those ``chosen`` (j, d) read at their mean."""
        points = torch.cat([self.pending, chosen.detach()])
        beliefs = about_objective(self.posterior)
        return beliefs.fantasize(points) if len(points) else beliefs

    def after(self, chosen: Tensor) -> "AnalyticScore":
        """The same score, with ``worth`` for the place after the points ``chosen`` (j, d)."""
        return replace(self, before=chosen.detach(), _built={})

    def worth(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Acquisition of means (n,) and standard deviations (n,), shape (n,)."""
        return evaluated(self._here, mean, sd.clamp_min(LEAST_SD))

    @cached_property
    def _here(self) -> Criterion:
        return self.acquisition(self.pending if self.before is None else torch.cat([self.pending, self.before]))

    def _for(self, chosen: Tensor) -> tuple[Criterion, Posterior, Slopes | None]:
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            beliefs = self.fantasized(chosen)
            self._built[key] = self.acquisition(torch.cat([self.pending, chosen.detach()])), beliefs, slopes_of(beliefs)
        return self._built[key]


def _chained(criterion: Criterion, at: MomentsWithSlopes) -> tuple[Tensor, Tensor]:
    values, gradients = chained(criterion, at)
    return torch.from_numpy(values), torch.from_numpy(gradients)
