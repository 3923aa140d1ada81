"""Hyper-parameters of an exact Gaussian process: the log posterior, its analytic gradient, and its maximisation.

With the targets t ~ N(c 1, S), S = K + v I, K of unit variance with one length scale l_m for each coordinate,

    log p(t | l, v) = -1/2 (t - c 1)^T a - 1/2 log det S - n/2 log 2 pi,   a = S^-1 (t - c 1),

whose derivative by any parameter p of S is 1/2 tr((a a^T - S^-1) dS/dp) (Rasmussen and Williams, 2006, eq. 5.9). The
constant has no prior, so that c is always the best one, 1^T S^-1 t / 1^T S^-1 1, where the derivative by it is zero.
Each parameter moves in its logarithm; its prior remains a density of the parameter itself, as in BoTorch.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform

from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.length_scales import STATIONARY_SD, unit_mean
from fieldcraft.models.observations import Array

# What L-BFGS-B is told where there is no finite density: it then shortens its step.
_REFUSED = 1e12


@dataclass(frozen=True)
class LogNormal:
    """Prior of a positive parameter p: log p ~ N(location, spread^2), and p is no less than ``least``."""

    location: float
    spread: float
    least: float

    def log_density(self, log_p: Array) -> tuple[float, Array]:
        """Sum of the log densities of p, and the derivative by each log p, for log p of any shape (k,)."""
        z = (log_p - self.location) / self.spread
        normaliser = len(log_p) * math.log(self.spread * math.sqrt(2 * math.pi))
        return float(-0.5 * z @ z - log_p.sum() - normaliser), -z / self.spread - 1


NOISE = LogNormal(location=-4.0, spread=1.0, least=1e-6)
"""BoTorch's prior of the noise variance of standardised targets, whose least value there is 1e-4: too much for optima
that lie on the edge of constraints, which are then believed known to a hundredth of their spread only."""


def scale_prior(d: int) -> LogNormal:
    """BoTorch's prior of each of d length scales over the unit cube (Hvarfner et al., 2024)."""
    return LogNormal(location=unit_mean(d), spread=STATIONARY_SD, least=0.025)


@dataclass(frozen=True, eq=False)
class LogPosterior:
    """Log posterior density of l and v, as a function of theta = (log l_1, ..., log l_d, and log v where unknown).

    Args:
        kernel: Kind of correlation.
        X: Points in the unit cube, shape (n, d).
        targets: Shape (n,).
        noise: v if it is known.
    """

    kernel: Kernel
    X: Array
    targets: Array
    noise: float | None

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The density at theta and its gradient; minus infinity and zeros where it is not finite.

        This includes a covariance without a Cholesky factor.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = self._likelihood(theta)
            for prior, part in self._priors(theta.size):
                density, slope = prior.log_density(theta[part])
                value += density
                gradient[part] += slope
        if math.isfinite(value) and np.isfinite(gradient).all():
            return value, gradient
        return -math.inf, np.zeros_like(theta)

    def constant(self, theta: Array) -> float:
        """The mean c of the largest density at theta, in targets."""
        s = pdist(self.X / np.exp(theta[: self.X.shape[1]]), "sqeuclidean")
        factor, _ = dpotrf(self._covariance(_CORRELATIONS[self.kernel](s)[0], theta).T, lower=1)
        return self._residual(factor)[0]

    def maximised(self, theta: Array) -> tuple[float, Array]:
        """Largest density that L-BFGS-B reaches from theta, and its theta; minus infinity if there is none."""
        n = len(self.targets)

        def mean_loss(at: Array) -> tuple[float, Array]:
            value, gradient = self(at)
            return (-value / n, -gradient / n) if math.isfinite(value) else (_REFUSED, gradient)

        least = np.full(theta.size, -math.inf)
        for prior, part in self._priors(theta.size):
            least[part] = math.log(prior.least)
        bounds = [(bound, None) for bound in least]
        found = minimize(mean_loss, theta, jac=True, method="L-BFGS-B", bounds=bounds)
        return self(found.x)[0], np.asarray(found.x)

    def _priors(self, size: int) -> list[tuple[LogNormal, slice]]:
        d = self.X.shape[1]
        return [(scale_prior(d), slice(0, d)), (NOISE, slice(d, size))]

    def _covariance(self, correlations: Array, theta: Array) -> Array:
        """S, shape (n, n), of the correlations of the pairs, shape (n (n - 1) / 2,)."""
        noise = np.exp(theta[-1]) if self.noise is None else self.noise
        S: Array = squareform(correlations, checks=False)
        np.fill_diagonal(S, 1 + noise)
        return S

    def _residual(self, factor: Array) -> tuple[float, Array, Array]:
        """The best constant c, t - c 1, and S^-1 (t - c 1), of the lower Cholesky factor of S."""
        sides = np.stack([self.targets, np.ones_like(self.targets)], axis=1)
        solved, _ = dpotrs(factor, sides, lower=1)
        c = solved[:, 0].sum() / solved[:, 1].sum()
        return c, self.targets - c, solved[:, 0] - c * solved[:, 1]

    def _likelihood(self, theta: Array) -> tuple[float, Array]:
        """log p(t | l, v) at the best constant, and its gradient by theta."""
        n, d = self.X.shape
        Z = self.X / np.exp(theta[:d])
        correlations, slopes = _CORRELATIONS[self.kernel](pdist(Z, "sqeuclidean"))
        # The transpose of a symmetric matrix is in LAPACK's order of memory: nothing is copied.
        factor, failed = dpotrf(self._covariance(correlations, theta).T, lower=1, overwrite_a=1)
        if failed:
            return -math.inf, np.zeros_like(theta)
        _, residual, weights = self._residual(factor)
        value = -0.5 * residual @ weights - np.log(factor.diagonal()).sum() - 0.5 * n * math.log(2 * math.pi)
        inverse = dpotri(factor, lower=1, overwrite_c=1)[0].T
        outer = np.outer(weights, weights)
        outer -= inverse
        # S moves with log l_m by -2 slope (z_im - z_jm)^2; the sum over pairs needs no (d, n, n) array.
        pairs = squareform(squareform(outer, checks=False) * slopes, checks=False)
        gradient = np.empty_like(theta)
        gradient[:d] = -2 * (pairs.sum(axis=0) @ Z**2 - (Z * (pairs @ Z)).sum(axis=0))
        gradient[d:] = 0.5 * np.exp(theta[d:]) * np.trace(outer)
        return float(value), gradient


def _matern12(s: Array) -> tuple[Array, Array]:
    r = np.sqrt(s)
    k = np.exp(-r)
    # Where two points are one the slope is infinite, and nothing depends on the length scale.
    return k, np.divide(k, -2 * r, out=np.zeros_like(r), where=r > 0)


def _matern32(s: Array) -> tuple[Array, Array]:
    a = np.sqrt(3 * s)
    e = np.exp(-a)
    return (1 + a) * e, -1.5 * e


def _matern52(s: Array) -> tuple[Array, Array]:
    a = np.sqrt(5 * s)
    e = np.exp(-a)
    linear = (1 + a) * e
    return linear + (5 / 3) * s * e, (-5 / 6) * linear


def _rbf(s: Array) -> tuple[Array, Array]:
    k = np.exp(-0.5 * s)
    return k, -0.5 * k


_CORRELATIONS: Mapping[Kernel, Callable[[Array], tuple[Array, Array]]] = {
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
    "rbf": _rbf,
}
"""Of squared scaled distances s, any shape: the correlation and its derivative by s."""
