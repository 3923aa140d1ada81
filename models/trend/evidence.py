"""Hyper-parameters of a process about a polynomial: the log posterior and its analytic gradient (see ``gaussian.fit``).

With phi(x) the terms of the polynomial but for the constant, whose coefficients have the variance b, and a process of
variance s about it, the targets are t ~ N(c 1, S), S = s K + b phi(X) phi(X)^T + v I + diag(w).
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from fieldcraft.models.gaussian.covariance import CORRELATIONS
from fieldcraft.models.gaussian.fit import NOISE, LogPosterior, stated_noise
from fieldcraft.models.numerics.length_scales import LONGER, Either, LogNormal, wide_prior
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.trend.monomials import Monomials
from fieldcraft.models.trend.process import KERNEL, Kriging, Trended

_SIZE = LogNormal(location=9.0, spread=3.0, least=1e-6)
"""Prior of s and of b, in squared targets: as a density of its logarithm N(0, 3^2)."""
# Where the ascents begin: how much longer length scales than the mode are, s, b and v; all in logarithms.
_STARTS = ((0.0, -1.0, -1.0, -5.0), (LONGER, -4.0, 0.0, -9.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class TrendedDensity(LogPosterior):
    """Log posterior density of theta = (log l_1, ..., log l_d, log s, log b, and log v where unknown).

    Args:
        degree: Of the polynomial.
        gram: phi(X) phi(X)^T, shape (n, n).
    """

    degree: int
    gram: Array

    @classmethod
    def of(cls, data: Observations, known: bool, degree: int) -> Self:
        """The density given all results.

        Args:
            data: The results.
            known: True if the noise is that of the data.
            degree: Of the polynomial.
        """
        noise, readings = stated_noise(data, known=known)
        terms = Monomials(data.X.shape[1], degree)(torch.tensor(data.X)).numpy()[:, 1:]
        return cls(
            KERNEL,
            (data.X + 1) / 2,
            data.targets,
            noise,
            readings=readings,
            prior=wide_prior,
            degree=degree,
            gram=terms @ terms.T,
        )

    def among(self, rows: NDArray[np.intp]) -> Self:
        """The density given these trials alone."""
        readings = None if self.readings is None else self.readings[rows]
        X, targets, gram = self.X[rows], self.targets[rows], self.gram[np.ix_(rows, rows)]
        return replace(self, X=X, targets=targets, readings=readings, gram=gram)

    def priors(self, size: int) -> list[tuple[LogNormal | Either, slice]]:
        """Priors of so many parameters theta, each with its place among them."""
        d = self.X.shape[1]
        return [(self.prior(d), slice(0, d)), (_SIZE, slice(d, d + 2)), (NOISE, slice(d + 2, size))]

    def best(self) -> Array:
        """The theta of the largest density over a few ascents.

        Raises:
            ValueError: none gives a finite density.
        """
        d = self.X.shape[1]
        starts = (np.array([*[self.prior(d).mode + longer] * d, *rest]) for longer, *rest in _STARTS)
        return self.ascended(*(start if self.noise is None else start[:-1] for start in starts))

    def ascended(self, *starts: Array) -> Array:
        """The theta of the largest density over ascents from these.

        Raises:
            ValueError: none gives a finite density.
        """
        density, theta = max((self.maximised(start) for start in starts), key=lambda end: end[0])
        if not math.isfinite(density):
            raise ValueError(
                f"No process about a polynomial gives a finite likelihood ({len(self.X)} trials): look for extreme "
                "results, or use the surrogate exact_gp."
            )
        return theta

    def trended(self, theta: Array) -> Trended:
        """The hyper-parameters at theta."""
        d = self.X.shape[1]
        (size, spread), scales = np.exp(theta[d : d + 2]).tolist(), 2 * torch.from_numpy(np.exp(theta[:d]))
        return Trended(self.degree, spread, size, scales, self.noise or float(np.exp(theta[-1])))

    def kriging(self, theta: Array) -> Kriging:
        """The beliefs at theta."""
        at, targets = self.trended(theta), torch.tensor(self.targets)[:, None]
        noises = at.noise if self.readings is None else at.noise + torch.tensor(self.readings)
        return Kriging(at, torch.from_numpy(2 * self.X - 1), targets, noises)

    def _likelihood(self, theta: Array) -> tuple[float, Array]:
        d = self.X.shape[1]
        Z, (size, spread) = self.X / np.exp(theta[:d]), np.exp(theta[d : d + 2])
        correlations, slopes = CORRELATIONS[self.kernel](pdist(Z, "sqeuclidean"))
        noise = np.exp(theta[-1]) if self.noise is None else self.noise
        S = spread * self.gram + size * squareform(correlations, checks=False)
        S.flat[:: len(S) + 1] += size + noise + (0.0 if self.readings is None else self.readings)
        explained = self.explained(S)
        if explained is None:
            return -math.inf, np.zeros_like(theta)
        value, outer = explained
        off, own = squareform(outer, checks=False), outer.diagonal()
        pairs = squareform(size * off * slopes, checks=False)
        gradient = np.empty_like(theta)
        gradient[:d] = -2 * (pairs.sum(axis=0) @ Z**2 - (Z * (pairs @ Z)).sum(axis=0))
        gradient[d] = size * (off @ correlations + 0.5 * own.sum())
        gradient[d + 1] = spread * (off @ squareform(self.gram, checks=False) + 0.5 * own @ self.gram.diagonal())
        gradient[d + 2 :] = 0.5 * noise * own.sum()
        return value, gradient
