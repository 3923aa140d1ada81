"""An exact process whose values at some points are drawn, and what it then believes elsewhere."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.observations import Array

# Added to the variances of the values that are drawn, and of those that are known, so that both can be factored.
_DRAWN, _KNOWN = 1e-8, 1e-6


@dataclass(frozen=True, eq=False)
class DrawnValues:
    """Beliefs about f given v_s = f(P), for s draws v of the posterior at points P.

    mean_s(x) = c + k(x, P) K^-1 (v_s - c),   variance(x) = k(x, x) - k(x, P) K^-1 k(P, x),   K = k(P, P).

    The noise of the results is in the draws; given one of them it is not in the beliefs.

    Args:
        process: The posterior.
        points: Encoded points P, shape (p, d).
        normals: Standard normal numbers, a row for each point, shape (p, s). The values at the first points depend on
            their own rows alone.
    """

    process: ExactPosterior
    points: Tensor
    normals: Tensor

    @cached_property
    def values(self) -> Tensor:
        """v, shape (s, p)."""
        process, P = self.process, self.points
        with torch.no_grad():
            explained = process.factor.half_solve(process.kernel(process.fit.X, P))
            covariance = process.kernel(P, P) - explained.mT @ explained
            root = Factor.of((covariance + covariance.mT) / 2, _DRAWN).lower
            return (process.mean(P)[:, None] + root @ self.normals).mT

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (s, n) and variance (n,) at X (n, d), differentiable."""
        cross = self.process.kernel(self.points, X)
        variance = self._factor.variance(torch.ones(len(X), dtype=X.dtype), cross)
        return self.process.constant + self._weights.mT @ cross, variance

    def slopes(self, X: Tensor) -> tuple[Array, Array, Array, Array]:
        """Means (s, n) and variance (n,) at X (n, d) with their gradients, (s, n, d) and (n, d), in closed form."""
        at = self._given.moment_slopes(X)
        each = [self._given.kernel_slopes(X, weights) for weights in self._weights.mT.numpy()]
        means, by_means = zip(*each, strict=True)
        return self.process.constant + np.stack(means), at.variance, np.stack(by_means), at.by_variance

    @cached_property
    def _factor(self) -> Factor:
        with torch.no_grad():
            return Factor.of(self.process.kernel(self.points, self.points), _KNOWN)

    @cached_property
    def _weights(self) -> Tensor:
        """K^-1 (v - c), shape (p, s)."""
        return self._factor.solve((self.values - self.process.constant).mT)

    @cached_property
    def _given(self) -> ExactPosterior:
        """The process at these points; of its moments only the variance is theirs."""
        fit = replace(self.process.fit, X=self.points, targets=self.values[0], readings=None)
        return replace(self.process, fit=fit, known_factor=self._factor)
