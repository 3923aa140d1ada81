"""Hyper-parameters of a process that begins with an earlier one, by their log posterior and its analytic gradient.

With the results' targets t, the earlier process' mean m and covariance C at their designs, and a difference of the
variance s and correlations R,

    t ~ N(c 1 + rho m, S),   S = rho^2 C + s R(l) + v I,

which is the autoregressive process of Kennedy and O'Hagan (2000), t = rho f + difference, given the earlier results.
The constant is the best one, as for an exact process (``models.gaussian.fit``), whose priors l and v have. The factor
has a normal prior about the one that gives f the spread of the results, as wide as itself.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from fieldcraft.models.gaussian.covariance import CORRELATIONS, scaled_squares
from fieldcraft.models.gaussian.fit import NOISE
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.length_scales import LONGER, LogNormal, scale_prior
from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array

_SIZES = (math.log(1e-6), math.log(10.0))
_REFUSED = 1e12
_ACCURACY = 1e-7


@dataclass(frozen=True)
class Priors:
    """Priors of the parameters that an exact process does not have, and of the noise.

    Args:
        size, size_sd: Mean and standard deviation of the log variance of the difference.
        rho: Mean of the factor; None for the one that gives the earlier process the spread of the results.
        rho_sd: Standard deviation of the factor, in shares of its mean.
        noise: Of the variance of a result.
    """

    size: float
    size_sd: float
    rho: float | None
    rho_sd: float
    noise: LogNormal


# The difference has a tenth of the results' variance, give or take a factor of 4.5.
EARLIER = Priors(math.log(0.1), 1.5, None, 1.0, NOISE)


@dataclass(frozen=True)
class Coupled:
    """Hyper-parameters of the process.

    Args:
        rho: Factor of the earlier process.
        size: Variance of the difference, s.
        scales: Its length scales in encoded coordinates, shape (d,).
        noise: Variance of a result, v.
        log_posterior: Log posterior density.
    """

    rho: float
    size: float
    scales: Array
    noise: float
    log_posterior: float


@dataclass(frozen=True, eq=False)
class Density:
    """Log posterior density as a function of theta = (log l_1, ..., log l_d, log s, rho, and log v where unknown).

    Args:
        kernel: Kind of correlation of the difference.
        X: Encoded designs, shape (n, d).
        targets: Results, shape (n,).
        mean: Mean of the earlier process there, shape (n,).
        covariance: Its covariance there, shape (n, n).
        noise: v if it is known.
        priors: Of the factor, the size and the noise.
    """

    kernel: Kernel
    X: Array
    targets: Array
    mean: Array
    covariance: Array
    noise: float | None
    priors: Priors = EARLIER

    @property
    def natural(self) -> float:
        """Mean of the factor: the stated one, else that which gives the earlier process the spread of the targets."""
        if self.priors.rho is not None:
            return self.priors.rho
        if len(self.X) < 2:
            return 1.0
        spread = float(np.var(self.mean, ddof=1) + self.covariance.diagonal().mean())
        return float(np.std(self.targets, ddof=1)) / math.sqrt(spread) or 1.0

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The density at theta and its gradient; minus infinity and zeros where it is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = self._likelihood(theta)
            for density, slope, part in self._priors(theta):
                value += density
                gradient[part] += slope
        if math.isfinite(value) and np.isfinite(gradient).all():
            return value, gradient
        return -math.inf, np.zeros_like(theta)

    def maximised(self) -> Coupled:
        """Hyper-parameters of the largest density that is reached.

        Ascents begin at the priors' modes, with rho and without, and at longer length scales with rho.

        Raises:
            ValueError: none gave a finite density.
        """
        d, n = self.X.shape[1], len(self.X)
        scale = scale_prior(d)
        v = self.priors.noise
        tail = [] if self.noise is not None else [v.mode]
        size, rho = self.priors.size, self.natural
        begins = (scale.mode, size, rho), (scale.mode + LONGER, size, rho), (scale.mode, -0.1, 0.0)
        starts = [np.array([*np.full(d, shared), size, rho, *tail]) for shared, size, rho in begins]
        wide = 10 * self.natural
        bounds = [(math.log(scale.least), None)] * d + [_SIZES, (-wide, wide)] + [(math.log(v.least), None)] * len(tail)

        def loss(theta: Array) -> tuple[float, Array]:
            value, gradient = self(theta)
            return (-value / n, -gradient / n) if math.isfinite(value) else (_REFUSED, gradient)

        ends = [
            minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": _ACCURACY})
            for start in starts
        ]
        best = min(ends, key=lambda end: float(end.fun))
        if best.fun >= _REFUSED:
            raise ValueError(
                f"No hyper-parameters of the process that begins with an earlier campaign give a finite likelihood "
                f"({n} trials): look for extreme results."
            )
        theta = np.asarray(best.x)
        noise = self.noise if self.noise is not None else math.exp(theta[-1])
        scales = 2 * np.exp(theta[:d])  # the prior's coordinates are half as wide as the encoded ones
        return Coupled(float(theta[d + 1]), math.exp(theta[d]), scales, noise, -n * float(best.fun))

    def _priors(self, theta: Array) -> list[tuple[float, Array | float, slice | int]]:
        d = self.X.shape[1]
        scales, by_scales = scale_prior(d).log_density(theta[:d])
        priors, spread = self.priors, self.priors.rho_sd * self.natural
        size, rho = (float(theta[d]) - priors.size) / priors.size_sd, (float(theta[d + 1]) - self.natural) / spread
        found: list[tuple[float, Array | float, slice | int]] = [
            (float(scales), by_scales, slice(0, d)),
            (-0.5 * size**2, -size / priors.size_sd, d),
            (-0.5 * rho**2, -rho / spread, d + 1),
        ]
        if self.noise is None:
            noise, by_noise = priors.noise.log_density(theta[d + 2 :])
            found.append((float(noise), by_noise, slice(d + 2, None)))
        return found

    def _likelihood(self, theta: Array) -> tuple[float, Array]:
        """Log density of the targets at the best constant, and its gradient by theta."""
        n, d = self.X.shape
        size, rho = math.exp(min(float(theta[d]), 700.0)), float(theta[d + 1])
        noise = self.noise if self.noise is not None else float(np.exp(theta[-1]))
        Z = (self.X + 1) / 2 / np.exp(theta[:d])
        R, slopes = CORRELATIONS[self.kernel](scaled_squares(Z, Z))
        S = rho**2 * self.covariance + size * R
        S.flat[:: n + 1] += noise
        factor, failed = dpotrf(S, lower=1)
        if failed:
            return -math.inf, np.zeros_like(theta)
        left = self.targets - rho * self.mean
        solved, _ = dpotrs(factor, np.stack([left, np.ones(n)], axis=1), lower=1)
        constant = solved[:, 0].sum() / solved[:, 1].sum()
        weights = solved[:, 0] - constant * solved[:, 1]
        value = -0.5 * (left - constant) @ weights - np.log(factor.diagonal()).sum() - 0.5 * n * math.log(2 * math.pi)
        inverse = dpotri(factor, lower=1)[0]
        outer = np.outer(weights, weights) - np.tril(inverse) - np.tril(inverse, -1).T
        pairs = size * outer * slopes
        gradient = np.empty_like(theta)
        gradient[:d] = -2 * (pairs.sum(axis=0) @ Z**2 - (Z * (pairs @ Z)).sum(axis=0))
        gradient[d] = 0.5 * size * np.sum(outer * R)
        gradient[d + 1] = rho * np.sum(outer * self.covariance) + self.mean @ weights
        gradient[d + 2 :] = 0.5 * noise * np.trace(outer)
        return float(value), gradient
