"""Posterior of results as a multiple of an earlier campaign's process plus a Gaussian process.

y(x) = rho f(x) + delta(x) (Kennedy and O'Hagan, 2000), with f the process of the earlier results and delta a Gaussian
process. Given the earlier results f has a mean m and a covariance C, so that y is a Gaussian process of the mean
c + rho m(x) and the covariance rho^2 C(x, x') + s R(x, x'), which the results condition. Where the earlier campaign has
tried nothing, C says so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.earlier.fit import Coupled
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.linear.conditioning import Factor, leave_one_out
from fieldcraft.models.linear.fourier_features import FourierFeatures, Kernel
from fieldcraft.models.observations import Scaling
from fieldcraft.models.surrogate import Function

# Random Fourier features of the prior of a draw.
_PATH_FEATURES = 1024


@dataclass(frozen=True, eq=False)
class CoupledPosterior:
    """The process at fixed hyper-parameters.

    Args:
        source: Process of the earlier results, in their own targets.
        name: The earlier campaign.
        found: The hyper-parameters.
        kernel: Kind of correlation of the difference.
        X: Encoded designs, shape (n, d).
        targets: Results, shape (n,).
        scaling: Map between targets and results.
        kept: Its state.
    """

    source: ExactPosterior
    name: str
    found: Coupled
    kernel: Kernel
    X: Tensor
    targets: Tensor
    scaling: Scaling
    kept: Mapping[str, Tensor]

    @property
    def metrics(self) -> Mapping[str, float]:
        """Factor of the earlier process; size, noise and length scales of the difference, in targets."""
        found = self.found
        return {
            "rho": found.rho,
            "difference_sd": math.sqrt(found.size),
            "noise_sd": math.sqrt(found.noise),
            "log_posterior": found.log_posterior,
            **{f"length_scale_{i}": float(value) for i, value in enumerate(found.scales)},
        }

    @property
    def remarks(self) -> Mapping[str, str]:
        """The earlier campaign, and its share of the variance of the results."""
        said = f"{self.found.rho:.3g} times {self.name} ({len(self.source.fit.X)} results)"
        return {"earlier": f"{said}, and a difference of {math.sqrt(self.found.size):.2g} standard deviations"}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free target at X (n, d)."""
        mean, variance = self.source.mean_var(X)
        cross = self._cross(X)
        prior = self.found.rho**2 * variance + self.found.size
        return self._constant + self.found.rho * mean + self._weights @ cross, self._factor.variance(prior, cross)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions by Matheron's rule: one of the earlier process, one of the difference, an exact update."""
        return [self._path(earlier, rng) for earlier in self.source.draw(q, rng)]

    def fantasize(self, X: Tensor) -> "CoupledPosterior":
        """The posterior conditioned on X (k, d) having been read at the mean, with the noise of a result."""
        points = X.detach()
        with torch.no_grad():
            mean, _ = self.mean_var(points)
        return replace(self, X=torch.cat([self.X, points]), targets=torch.cat([self.targets, mean]))

    def log_predictive(self) -> Tensor:
        """log density of each target given the others, shape (n,), at these hyper-parameters."""
        return leave_one_out(self._factor, self._residual)

    def state(self) -> dict[str, Tensor]:
        """The hyper-parameters, and the state of the earlier process."""
        return dict(self.kept)

    def _path(self, earlier: Function, rng: np.random.Generator) -> Function:
        found = self.found
        phi = FourierFeatures.drawn(self.kernel, torch.from_numpy(found.scales), _PATH_FEATURES, rng)
        waves = phi.combined(torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies))))
        error = math.sqrt(found.noise) * torch.from_numpy(rng.standard_normal(len(self.X)))

        def prior(X: Tensor) -> Tensor:
            return found.rho * (earlier(X) - self.source.mean(X)) + math.sqrt(found.size) * waves(X)

        with torch.no_grad():
            weights = self._factor.solve(self._residual - prior(self.X) - error)

        def drawn(X: Tensor) -> Tensor:
            mean = self._constant + found.rho * self.source.mean(X)
            return mean + prior(X) + weights @ self._cross(X)

        return drawn

    def _cross(self, X: Tensor) -> Tensor:
        """Prior covariance of the results and X (c, d), shape (n, c)."""
        shared = self.found.rho**2 * earlier_covariance(self.source, self.X, X)
        return shared + self.found.size * covariance(self.kernel, self.X, X, torch.from_numpy(self.found.scales))

    @cached_property
    def _factor(self) -> Factor:
        with torch.no_grad():
            return Factor.of(self._cross(self.X), self.found.noise)

    @cached_property
    def _left(self) -> Tensor:
        with torch.no_grad():
            return self.targets - self.found.rho * self.source.mean(self.X)

    @cached_property
    def _constant(self) -> float:
        """The best constant, 1^T S^-1 r / 1^T S^-1 1."""
        sides = torch.stack([self._left, torch.ones_like(self._left)], dim=1)
        solved = self._factor.solve(sides).sum(0)
        return float(solved[0] / solved[1])

    @cached_property
    def _residual(self) -> Tensor:
        return self._left - self._constant

    @cached_property
    def _weights(self) -> Tensor:
        return self._factor.solve(self._residual)


def earlier_covariance(source: ExactPosterior, A: Tensor, B: Tensor) -> Tensor:
    """Covariance of an exact process, given its results, between A (a, d) and B (b, d), shape (a, b)."""
    left, right = (source.factor.half_solve(source.kernel(source.fit.X, points)) for points in (A, B))
    return source.kernel(A, B) - left.mT @ right
