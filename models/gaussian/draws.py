"""Draws from an exact Gaussian process: of functions, by three methods, and of its values at some points."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.linear.fourier_features import FourierFeatures, Waves
from fieldcraft.models.linear.linear_model import LinearModel
from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.observations import Array
from fieldcraft.models.surrogate import Function
from fieldcraft.physics.space import SearchSpace

# Directions of a covariance below this share of its largest eigenvalue are rounding.
_RANK = 1e-10
# Added to the variances of values that are drawn, and of those that are known, so that both can be factored.
_DRAWN, _KNOWN = 1e-8, 1e-6
# Random Fourier features of the prior of a draw.
_PATH_FEATURES = 1024


def pathwise(posterior: ExactPosterior, q: int, rng: np.random.Generator) -> list[Function]:
    """q functions by Matheron's rule: a prior of random Fourier features, an exact update (Wilson et al., 2020).

    f(x) = c + g(x) + k(x, X) S^-1 (t - c - g(X) - e), with g from the prior and e the noise of the results.
    """
    return [_path(posterior, rng) for _ in range(q)]


def _path(posterior: ExactPosterior, rng: np.random.Generator) -> Function:
    fit, constant = posterior.fit, posterior.constant
    phi = FourierFeatures.drawn(fit.kernel, posterior.length_scales, _PATH_FEATURES, rng)
    theta = torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies)))
    error = torch.as_tensor(posterior.noises).sqrt() * torch.from_numpy(rng.standard_normal(len(fit.X)))
    prior = phi.combined(theta)
    with torch.no_grad():
        weights = posterior.factor.solve(fit.targets - constant - prior(fit.X) - error)
    return _Path(posterior, prior, weights)


@dataclass(frozen=True, eq=False)
class _Path:
    """x -> c + g(x) + k(x, X) w (see ``SlopedFunction``)."""

    posterior: ExactPosterior
    prior: Waves
    weights: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        return self._updated(X, self.prior(X))

    @property
    def coarse(self) -> Function:
        return lambda X: self._updated(X, self.prior.coarse(X))

    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        (prior, slopes), (update, moved) = (
            self.prior.value_and_grad(X),
            self.posterior.kernel_slopes(X, self.weights.numpy()),
        )
        return self.posterior.constant + prior + torch.from_numpy(update), slopes + torch.from_numpy(moved)

    def _updated(self, X: Tensor, prior: Tensor) -> Tensor:
        return self.posterior.constant + prior + self.posterior.kernel(X, self.posterior.fit.X) @ self.weights


def joint(
    posterior: ExactPosterior, q: int, rng: np.random.Generator, n_skeleton: int, space: SearchSpace | None = None
) -> list[Function]:
    """q exact joint normal draws at Sobol points of [-1, 1]^d or a space, continued between them by their kriging.

    With C the posterior covariance, V diag(e) V^T = C(S, S) and z ~ N(0, I):
    f(x) = mean(x) + C(x, S) V diag(e)^-1/2 z, whose distribution at S is exactly the posterior's; elsewhere the
    variance that S does not determine is missing.
    """
    X, factor = posterior.fit.X, posterior.factor
    with torch.no_grad():
        skeleton = _sobol(X.shape[1], n_skeleton, rng, space)
        cross = posterior.kernel(X, skeleton)
        explained = factor.half_solve(cross)
        covariance = posterior.kernel(skeleton, skeleton) - explained.mT @ explained
        root = _inverse_root(covariance)
        centres = torch.cat([X, skeleton])
        mean = factor.solve(posterior.fit.targets - posterior.constant)
        functions = []
        for _ in range(q):
            weights = root @ torch.from_numpy(rng.standard_normal(root.shape[1]))
            functions.append(_sum(posterior, centres, torch.cat([mean - factor.solve(cross @ weights), weights])))
        return functions


def _sobol(dimension: int, n: int, rng: np.random.Generator, space: SearchSpace | None) -> Tensor:
    """Scrambled Sobol points of [-1, 1]^d, or of a space where one is given, shape (n, d)."""
    if space is not None:
        return torch.from_numpy(take(sobol_points(space, rng), n))
    seed = int(rng.integers(2**31 - 1))
    engine = SobolEngine(dimension, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    cube: Tensor = engine.draw(n, dtype=torch.float64)
    points: Tensor = 2 * cube - 1
    return points


def _inverse_root(covariance: Tensor) -> Tensor:
    """V diag(e)^-1/2 over the eigenvalues e above rounding, shape (m, rank)."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > _RANK * values[-1].clamp_min(torch.finfo(values.dtype).tiny)
    root: Tensor = vectors[:, kept] / values[kept].sqrt()
    return root


def _sum(posterior: ExactPosterior, centres: Tensor, weights: Tensor) -> Function:
    def function(X: Tensor) -> Tensor:
        return posterior.constant + posterior.kernel(X, centres) @ weights

    return function


def features(posterior: ExactPosterior, q: int, rng: np.random.Generator, n_features: int) -> list[Function]:
    """q draws of the Bayesian linear regression on random Fourier features of the kernel, fresh features for each."""
    return [_regressed(posterior, n_features, rng) for _ in range(q)]


def _regressed(posterior: ExactPosterior, n_features: int, rng: np.random.Generator) -> Function:
    fit = posterior.fit
    phi = FourierFeatures.drawn(fit.kernel, length_scales(fit.metrics), n_features, rng)
    model = LinearModel.of(phi(fit.X), posterior.noises)
    drawn = phi.combined(model.drawn(fit.targets - posterior.constant, rng))
    return lambda X: posterior.constant + drawn(X)


def length_scales(metrics: Mapping[str, float]) -> Tensor:
    """Length scales in encoded coordinates, shape (d,), from the metrics of a fit."""
    count = sum(name.startswith("length_scale_") for name in metrics)
    return torch.tensor([metrics[f"length_scale_{i}"] for i in range(count)], dtype=torch.float64)


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
