"""Beliefs that pass through results, for designs that give the same number when read again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Observations, Scaling
from fieldcraft.models.surrogate import Function, Posterior

REACH = 0.01
"""How far a result is felt, as the root mean square over the encoded coordinates: half a percent of their range."""
_JITTER = 1e-8
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
        mean, variance = self.beliefs.mean_var(X)
        near = self._likeness(X)
        closest, which = near.max(dim=1)
        known = self._variances[which] * (1 - (1 - closest).square())
        return mean + near @ self._weights, (variance - known).clamp_min(_LEAST_VARIANCE)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions of the beliefs, each corrected to pass through the results."""
        return [self._led(function) for function in self.beliefs.draw(q, rng)]

    def fantasize(self, X: Tensor) -> "PosteriorThroughResults":
        """The beliefs as if X (k, d) had been read at their mean."""
        return replace(self, beliefs=self.beliefs.fantasize(X))

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
            return self._factor.solve(self.targets - self.beliefs.mean_var(self.X)[0])

    @cached_property
    def _variances(self) -> Tensor:
        """The beliefs' variances at the designs read, shape (n,)."""
        with torch.no_grad():
            return self.beliefs.mean_var(self.X)[1]

    def _likeness(self, X: Tensor) -> Tensor:
        """k at X (m, d) and the designs read, shape (m, n); differentiable also where two points coincide."""
        apart = (X[:, None, :] - self.X).square().sum(dim=2)
        return torch.exp(-apart / (2 * self.X.shape[1] * REACH**2))

    def _led(self, function: Function) -> Function:
        with torch.no_grad():
            weights = self._factor.solve(self.targets - function(self.X))
        return lambda X: function(X) + self._likeness(X) @ weights


def through_results(posterior: Posterior, data: Observations) -> Posterior:
    """Beliefs about the objective, corrected to pass through its results; those about constraints are unchanged."""
    if isinstance(posterior, ConstrainedPosterior):
        return replace(posterior, objective=through_results(posterior.objective, data))
    return PosteriorThroughResults(posterior, torch.tensor(data.X), torch.tensor(data.targets))
