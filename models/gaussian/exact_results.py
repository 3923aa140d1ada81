"""Beliefs that pass through results, for designs that give the same number when read again."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.composite.posterior import CompositePosterior
from fieldcraft.models.composite.sampled import Sampler, sampler_of
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.gaussian.covariance import CORRELATIONS, covariance, pulled, scaled_squares
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.pareto.posterior import SeveralObjectives
from fieldcraft.models.surrogate import (
    Function,
    MomentsWithSlopes,
    Posterior,
    Slopes,
    coarse,
    means,
    slopes_of,
)

REACH = 0.01
"""How far a result is felt, as the root mean square over the encoded coordinates: half a percent of their range."""
_JITTER = 1e-8
_UNFELT = 1e-14  # a likeness whose share of a variance is lost beside ``_LEAST_VARIANCE``
_LEAST_VARIANCE = 1e-10  # of a standardised target; below it GPyTorch warns


@dataclass(frozen=True, eq=False)
class PosteriorThroughResults:
    """Beliefs that are certain of each result at its design and unchanged farther than ``REACH`` from it.

    A surrogate takes for noise what it cannot represent. It then expects a better result of the same design, or of one
    very close to it, each time. If a design that is read again gives the same number, the residual of a result belongs
    to the place (the nugget as variation on the least scale: Cressie, 1993, section 3.2):

        mean'(x) = mean(x) + k(x)^T K^-1 (t - mean(X)),    k(x, x') = exp(-|x - x'|^2 / (2 d REACH^2)),    K = k(X, X).

    The error of the beliefs hardly changes over so short a distance. With x_i the nearest of the designs read the
    variance is that of e(x) - k_i e(x_i), where Cov(e(x), e(x_i)) = Var(e(x_i)):
    variance(x) - variance(x_i) (1 - (1 - k_i)^2).

    Args:
        beliefs: Posterior of the surrogate.
        X: Encoded designs that were read, shape (n, d).
        targets: Their results in targets, shape (n,).
    """

    beliefs: Posterior
    X: Tensor
    targets: Tensor

    @property
    def scaling(self) -> Scaling:
        """Scaling of the beliefs."""
        return self.beliefs.scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the beliefs."""
        return self.beliefs.metrics

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the beliefs."""
        return self.beliefs.remarks

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) at X (n, d)."""
        return self._corrected(X, *self.beliefs.mean_var(X))

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone."""
        return means(self.beliefs, X) + self._likeness(X) @ self._weights

    @property
    def coarse(self) -> Posterior:
        """The coarse form of the beliefs, which differ from these only very near a result."""
        return coarse(self.beliefs)

    @property
    def moment_slopes(self) -> Slopes | None:
        """Moments with their gradients in closed form, if the beliefs have them."""
        slopes = slopes_of(self.beliefs)
        return None if slopes is None else partial(self._sloped, slopes)

    @property
    def target_sampler(self) -> Sampler | None:
        """The values of the beliefs, moved and drawn together to this mean and variance; None where these have none."""
        own = sampler_of(self.beliefs)
        return None if own is None else Sampler(own.variables, partial(self._sampled, own))

    def _sampled(self, own: Sampler, X: Tensor, base: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, mean, variance = own.at(X, base)
        known, left = self._corrected(X, mean, variance)
        return known + (left / variance.clamp_min(_LEAST_VARIANCE)).sqrt() * (values - mean), known, left

    def _corrected(self, X: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) at X (n, d), of those of the beliefs there."""
        near = self._likeness(X)
        closest, which = near.max(dim=1)
        known = self._read_variances(closest, which) * (1 - (1 - closest).square())
        return mean + near @ self._weights, (variance - known).clamp_min(_LEAST_VARIANCE)

    def _sloped(self, slopes: Slopes, X: Tensor) -> MomentsWithSlopes:
        at, x, read = slopes(X), X.detach().numpy() / self._reach, self.X.numpy() / self._reach
        values, by_square = CORRELATIONS["rbf"](scaled_squares(x, read))
        which, each, weights = values.argmax(axis=1), np.arange(len(x)), self._weights.numpy()
        closest = values[each, which]
        variances = self._read_variances(torch.from_numpy(closest), torch.from_numpy(which)).numpy()
        variance = at.variance - variances * (1 - (1 - closest) ** 2)
        by_closest = 2 * by_square[each, which][:, None] * (x - read[which]) / self._reach
        by_variance = at.by_variance - (2 * variances * (1 - closest))[:, None] * by_closest
        return MomentsWithSlopes(
            at.mean + values @ weights,
            np.maximum(variance, _LEAST_VARIANCE),
            at.by_mean + pulled(by_square * weights, x, read) / self._reach,
            np.where((variance > _LEAST_VARIANCE)[:, None], by_variance, 0.0),
        )

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions of the beliefs, each corrected to pass through the results."""
        return [self._led(function) for function in self.beliefs.draw(q, rng)]

    def fantasize(self, X: Tensor) -> "PosteriorThroughResults":
        """The beliefs as if X (k, d) had been read at their mean, and so were certain there.

        What a surrogate takes for noise would leave an improvement to hope for right beside a design of the batch.
        """
        points = X.detach()
        with torch.no_grad():
            believed = torch.cat([self.targets, self.mean(points)])
        return replace(self, beliefs=self.beliefs.fantasize(points), X=torch.cat([self.X, points]), targets=believed)

    def state(self) -> dict[str, Tensor]:
        """State of the beliefs."""
        return self.beliefs.state()

    @cached_property
    def _factor(self) -> Factor:
        return Factor.of(self._likeness(self.X), _JITTER)

    @cached_property
    def _weights(self) -> Tensor:
        """K^-1 (t - mean(X)), shape (n,)."""
        with torch.no_grad():
            return self._factor.solve(self.targets - means(self.beliefs, self.X))

    def _read_variances(self, closest: Tensor, which: Tensor) -> Tensor:
        """The beliefs' variances at these designs that were read, (m,); 0 for all if none is felt (k near zero)."""
        felt = bool((closest > _UNFELT).any())
        return self._variances[which] if felt else torch.zeros_like(closest)

    @cached_property
    def _variances(self) -> Tensor:
        """The beliefs' variances at the designs read, shape (n,)."""
        with torch.no_grad():
            return self.beliefs.mean_var(self.X)[1]

    def _likeness(self, X: Tensor) -> Tensor:
        """k at X (m, d) and the designs read, shape (m, n); differentiable also where two points coincide."""
        return covariance("rbf", X, self.X, torch.full((self.X.shape[1],), self._reach, dtype=X.dtype))

    @property
    def _reach(self) -> float:
        """Length scale of k in each coordinate."""
        return REACH * math.sqrt(self.X.shape[1])

    def _led(self, function: Function) -> Function:
        with torch.no_grad():
            weights = self._factor.solve(self.targets - function(self.X))
        return lambda X: function(X) + self._likeness(X) @ weights


def through_results(posterior: Posterior, data: Observations) -> Posterior:
    """Beliefs about the objectives, corrected to pass through their results; those about constraints are unchanged."""
    if isinstance(posterior, ConstrainedPosterior):
        return replace(posterior, objective=through_results(posterior.objective, data))
    if isinstance(posterior, CompositePosterior):
        own = (through_results(part, data.part(k)) for k, part in enumerate(posterior.parts))
        return replace(posterior, parts=tuple(own))
    if isinstance(posterior, SeveralObjectives):
        each = (through_results(part, data.objective_of(k)) for k, part in enumerate(posterior.parts))
        return replace(posterior, parts=tuple(each))
    return PosteriorThroughResults(posterior, torch.tensor(data.X), torch.tensor(data.targets))
