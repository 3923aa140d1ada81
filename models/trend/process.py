"""Gaussian process about a polynomial whose coefficients are unknown too: universal kriging with a prior.

With terms phi(x) of the polynomial, coefficients b ~ N(0, T), none for the constant, and a process g of variance s and
correlation k about it, t = phi(x)^T b + g(x) + e. Given values at P, with S = s k(P, P) + N, H = phi(P) and
A = H^T S^-1 H + T^-1,

    mean(x) = phi(x)^T b + s k(x, P) S^-1 (v - H b),   b = A^-1 H^T S^-1 v,
    cov(x, y) = s k(x, y) - s k(x, P) S^-1 s k(P, y) + u(x)^T A^-1 u(y),   u(x) = phi(x) - H^T S^-1 s k(P, x)

(Rasmussen and Williams, 2006, eqs. 2.41 and 2.42). What the coefficients leave open is part of the variance.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.covariance import CORRELATIONS, covariance, pulled, scaled_squares
from fieldcraft.models.linear.conditioning import Factor, foretold
from fieldcraft.models.linear.fourier_features import FourierFeatures, Kernel
from fieldcraft.models.observations import Array, Scaling
from fieldcraft.models.surrogate import Function, MomentsWithSlopes
from fieldcraft.models.trend.monomials import Monomials

KERNEL: Kernel = "rbf"
"""Correlation of the process about the polynomial."""
TRENDED = "trended"
"""Entry of a state that has the hyper-parameters."""
_PATH_FEATURES = 1024
# Added to the variances of values that are drawn and of those that are known, as shares of the variance of the process.
_DRAWN, _KNOWN = 1e-8, 1e-6


@dataclass(frozen=True, eq=False)
class Trended:
    """Hyper-parameters, in squared targets and encoded coordinates.

    Args:
        degree: Of the polynomial, 1 or 2.
        spread: Variance of a coefficient.
        size: Variance of the process about it.
        scales: Length scales of the process, shape (d,).
        noise: Variance of a result.
    """

    degree: int
    spread: float
    size: float
    scales: Tensor
    noise: float

    @cached_property
    def terms(self) -> Monomials:
        """The terms of the polynomial."""
        return Monomials(len(self.scales), self.degree)

    def rescaled(self, ratio: float) -> "Trended":
        """The same for targets that are ``ratio`` times as large."""
        square = ratio**2
        return replace(self, spread=square * self.spread, size=square * self.size, noise=square * self.noise)

    def kernel(self, A: Tensor, B: Tensor) -> Tensor:
        """Covariance of the process about the polynomial at A (a, d) and B (b, d), shape (a, b), differentiable."""
        return self.size * covariance(KERNEL, A, B, self.scales)

    def flat(self) -> Tensor:
        """All of them, shape (4 + d,)."""
        own = torch.tensor([float(self.degree), self.spread, self.size, self.noise], dtype=torch.float64)
        return torch.cat([own, self.scales])

    @classmethod
    def of(cls, flat: Tensor) -> "Trended":
        """The hyper-parameters that were ``flat``."""
        degree, spread, size, noise = flat[:4].tolist()
        return cls(int(degree), spread, size, flat[4:], noise)


@dataclass(frozen=True, eq=False)
class Kriging:
    """Beliefs given values at points, for s sets of values at once.

    Args:
        at: Hyper-parameters.
        points: Encoded points P, shape (n, d).
        values: Their values, shape (n, s).
        noises: Variances N of these: one number, or shape (n,).
    """

    at: Trended
    points: Tensor
    values: Tensor
    noises: float | Tensor

    def means(self, X: Tensor) -> Tensor:
        """Means (m, s) at X (m, d), differentiable."""
        return self.at.terms(X) @ self.coefficients + self.at.kernel(X, self.points) @ self.weights

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (m, s) and variance (m,) at X (m, d), differentiable."""
        cross, terms = self.at.kernel(self.points, X), self.at.terms(X)
        unexplained = self._unexplained(terms, cross)
        variance = self.at.size - self.factor.half_solve(cross).square().sum(0)
        means = terms @ self.coefficients + cross.mT @ self.weights
        return means, (variance + self._precision.half_solve(unexplained).square().sum(0)).clamp_min(0)

    def covariance(self, X: Tensor) -> Tensor:
        """Joint covariance (m, m) at X (m, d)."""
        cross = self.at.kernel(self.points, X)
        explained, unexplained = (
            self.factor.half_solve(cross),
            self._precision.half_solve(self._unexplained(self.at.terms(X), cross)),
        )
        found = self.at.kernel(X, X) - explained.mT @ explained + unexplained.mT @ unexplained
        return (found + found.mT) / 2

    def slopes(self, X: Tensor) -> tuple[Array, Array, Array, Array]:
        """Means (s, m) and variance (m,) at X (m, d) with their gradients, (s, m, d) and (m, d), in closed form."""
        at, scales, terms = self.at, self.at.scales.numpy(), self.at.terms
        points, x = X.detach(), X.detach().numpy() / scales
        read = self.points.numpy() / scales
        correlation, by_square = CORRELATIONS[KERNEL](scaled_squares(x, read))
        cross, by_square, own = at.size * correlation, at.size * by_square, terms(points)
        solved = self.factor.solve(torch.from_numpy(cross).mT).mT.numpy()
        unexplained = self._unexplained(own, torch.from_numpy(cross).mT)
        left = self._precision.solve(unexplained).mT.numpy()
        variance = at.size - (solved * cross).sum(axis=1) + (left * unexplained.mT.numpy()).sum(axis=1)
        along = -2 * by_square * (solved + left @ self._solved_terms.numpy().T)
        by_variance = pulled(along, x, read) / scales + 2 * terms.pulled(points.numpy(), left)
        by_variance[variance < 0] = 0
        b, w = self.coefficients.numpy(), self.weights.numpy()
        means = own.numpy() @ b + cross @ w
        by_means = [
            pulled(by_square * w[:, k], x, read) / scales + terms.pulled(points.numpy(), np.tile(b[:, k], (len(x), 1)))
            for k in range(b.shape[1])
        ]
        return means.T, np.maximum(variance, 0), np.stack(by_means), by_variance

    @property
    def left_out(self) -> tuple[Array, Array]:
        """Matrix M (n, n) and variances (n,): of values v each is foretold from the others as v - M v."""
        return foretold(self.factor, self._solved_terms, self._precision)

    @cached_property
    def factor(self) -> Factor:
        """Factor of S."""
        with torch.no_grad():
            return Factor.of(self.at.kernel(self.points, self.points), self.noises)

    @cached_property
    def _precision(self) -> Factor:
        """Factor of A."""
        terms = self._terms
        inverse = torch.full((terms.shape[1],), 1 / self.at.spread, dtype=torch.float64)
        inverse[0] = 0.0
        return Factor.of(terms.mT @ self._solved_terms, inverse)

    @cached_property
    def coefficients(self) -> Tensor:
        """b of each set, shape (p, s)."""
        return self._precision.solve(self._solved_terms.mT @ self.values)

    @cached_property
    def weights(self) -> Tensor:
        """S^-1 (v - H b) of each set, shape (n, s)."""
        return self.factor.solve(self.values - self._terms @ self.coefficients)

    def drawn_coefficients(self, rng: np.random.Generator) -> Tensor:
        """Coefficients (p,) from their posterior, of the first set."""
        normals = torch.from_numpy(rng.standard_normal((len(self.coefficients), 1)))
        # A = L L^T, so that L^-T z has the covariance A^-1.
        spread: Tensor = torch.linalg.solve_triangular(self._precision.lower.mT, normals, upper=True)
        return self.coefficients[:, 0] + spread[:, 0]

    @cached_property
    def _terms(self) -> Tensor:
        return self.at.terms(self.points)

    @cached_property
    def _solved_terms(self) -> Tensor:
        """S^-1 H, shape (n, p)."""
        return self.factor.solve(self._terms)

    def _unexplained(self, terms: Tensor, cross: Tensor) -> Tensor:
        """u, shape (p, m)."""
        return terms.mT - self._solved_terms.mT @ cross


@dataclass(frozen=True, eq=False)
class TrendedPosterior:
    """Posterior of a process about a polynomial at fixed hyper-parameters.

    Args:
        at: Hyper-parameters.
        X: Encoded points, shape (n, d).
        targets: Their results, shape (n,).
        readings: Known variance of each target beside the noise, shape (n,); None where there is none.
        scaling: Map between its values and physical ones.
        remarks: Notes on how it was made.
        stamp: Digest of the data, as an entry of its state.
    """

    at: Trended
    X: Tensor
    targets: Tensor
    readings: Tensor | None
    scaling: Scaling
    remarks: Mapping[str, str]
    stamp: Mapping[str, Tensor]

    @property
    def metrics(self) -> Mapping[str, float]:
        """Degree, noise, standard deviation about the polynomial, and length scales of that."""
        at = self.at
        scales = {f"length_scale_{i}": float(scale) for i, scale in enumerate(at.scales)}
        return {"trend": float(at.degree), "noise_sd": math.sqrt(at.noise), "about_sd": math.sqrt(at.size)} | scales

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (m,) and variance (m,) of the noise-free target at X (m, d)."""
        means, variance = self.kriging.moments(X)
        return means[:, 0], variance

    def mean(self, X: Tensor) -> Tensor:
        """Mean (m,) at X (m, d) alone."""
        return self.kriging.means(X)[:, 0]

    def moment_slopes(self, X: Tensor) -> MomentsWithSlopes:
        """Mean and variance at X (m, d) with their gradients, in closed form (see MomentsWithSlopes)."""
        means, variance, by_means, by_variance = self.kriging.slopes(X)
        return MomentsWithSlopes(means[0], variance, by_means[0], by_variance)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions: coefficients from their posterior, and given them a path by Matheron's rule."""
        return [self._path(rng) for _ in range(q)]

    def _path(self, rng: np.random.Generator) -> Function:
        at, kriging = self.at, self.kriging
        b, root = kriging.drawn_coefficients(rng), math.sqrt(at.size)
        phi = FourierFeatures.drawn(KERNEL, at.scales, _PATH_FEATURES, rng)
        prior = phi.combined(root * torch.from_numpy(rng.standard_normal(2 * len(phi.frequencies))))
        error = torch.as_tensor(kriging.noises).sqrt() * torch.from_numpy(rng.standard_normal(len(self.X)))
        with torch.no_grad():
            weights = kriging.factor.solve(self.targets - at.terms(self.X) @ b - prior(self.X) - error)
        return lambda X: at.terms(X) @ b + prior(X) + at.kernel(X, self.X) @ weights

    def fantasize(self, X: Tensor) -> "TrendedPosterior":
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a further result."""
        points, readings = X.detach(), self.readings
        with torch.no_grad():
            believed = torch.cat([self.targets, self.mean(points)])
        if readings is not None:
            readings = torch.cat([readings, readings.median().expand(len(points))])
        return replace(self, X=torch.cat([self.X, points]), targets=believed, readings=readings)

    @property
    def points(self) -> Tensor:
        """Encoded points, shape (n, d)."""
        return self.X

    @property
    def left_out(self) -> tuple[Array, Array]:
        """Matrix and variances by which each result is foretold from the others (see ``Kriging``)."""
        return self.kriging.left_out

    def state(self) -> dict[str, Tensor]:
        """Hyper-parameters and the digest of the data."""
        return {TRENDED: self.at.flat(), **self.stamp}

    @cached_property
    def kriging(self) -> Kriging:
        """The beliefs given the results."""
        noises = self.at.noise if self.readings is None else self.at.noise + self.readings
        return Kriging(self.at, self.X, self.targets[:, None], noises)


@dataclass(frozen=True, eq=False)
class TrendedValues:
    """Beliefs about f given v_s = f(P), for s draws v of the posterior at points P (see ``draws.DrawnValues``).

    Args:
        process: The posterior.
        points: Encoded points P, shape (p, d).
        normals: Standard normal numbers, a row for each point, shape (p, s).
    """

    process: TrendedPosterior
    points: Tensor
    normals: Tensor

    @cached_property
    def values(self) -> Tensor:
        """v, shape (s, p)."""
        with torch.no_grad():
            root = Factor.of(self.process.kriging.covariance(self.points), _DRAWN * self.process.at.size).lower
            return (self.process.mean(self.points)[:, None] + root @ self.normals).mT

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (s, m) and variance (m,) at X (m, d), differentiable."""
        means, variance = self._given.moments(X)
        return means.mT, variance

    def slopes(self, X: Tensor) -> tuple[Array, Array, Array, Array]:
        """Means (s, m) and variance (m,) at X (m, d) with their gradients, (s, m, d) and (m, d), in closed form."""
        return self._given.slopes(X)

    @cached_property
    def _given(self) -> Kriging:
        return Kriging(self.process.at, self.points, self.values.mT, _KNOWN * self.process.at.size)
