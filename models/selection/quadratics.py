"""Quadratic functions of normal variables: their moments, and their densities by the saddle point.

y = y_0 + sum_k (a_k z_k + b_k z_k^2) + e with independent z_k ~ N(0, s) and e ~ N(0, r) has the cumulant generating
function, where every q_k = 1 - 2 s b_k t is positive,

    K(t) = y_0 t + sum_k (s a_k^2 t^2 / (2 q_k) - log(q_k) / 2) + r t^2 / 2,

and with K'(t) = y its density is near exp(K(t) - t y) / sqrt(2 pi K''(t)) (Daniels, 1954; for quadratic forms: Kuonen,
1999). It is exact where all b_k are 0, and its relative error stays bounded in the tails.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Steps to a saddle point at most, and how near to the value its mean has to be, in standard deviations there.
_STEPS, _NEAR = 100, 1e-5


@dataclass(frozen=True, eq=False)
class Quadratics:
    """n quadratic functions of K standard normal variables, those of each in its own.

    Args:
        middle: Values where all variables are 0, shape (n,).
        slopes: What each variable adds in proportion, shape (n, K).
        bends: What its square adds, shape (n, K).
    """

    middle: Array
    slopes: Array
    bends: Array

    def scaled(self, shift: float, size: float) -> "Quadratics":
        """The functions less ``shift``, over ``size`` != 0; N(0, 1) in these units where a moment is not finite."""
        known = np.isfinite(self.mean) & np.isfinite(self.variance)
        shape = len(self.middle), max(1, self.slopes.shape[1])  # an unknown one needs a variable
        slopes, bends = np.zeros((2, *shape))
        slopes[~known, 0] = 1.0
        width = self.slopes.shape[1]
        slopes[known, :width], bends[known, :width] = self.slopes[known] / size, self.bends[known] / size
        return Quadratics(np.where(known, (self.middle - shift) / size, 0.0), slopes, bends)

    @property
    def mean(self) -> Array:
        """Means, shape (n,)."""
        return np.asarray(self.middle + self.bends.sum(axis=1))

    @property
    def variance(self) -> Array:
        """Variances, shape (n,)."""
        return np.asarray((self.slopes**2 + 2 * self.bends**2).sum(axis=1))

    def log_densities(self, values: Array, spreads: Array, noises: Array) -> Array:
        """log density of values (n,), shape (S, R, n).

        Args:
            values: A value of each function.
            spreads: Variances S of the variables, all > 0.
            noises: Variances R of normal noise, by function, shape (R, n), all > 0.
        """
        errors = values - self.middle
        squares = spreads[:, None, None] * self.slopes**2
        bends = spreads[:, None, None] * self.bends
        found, start = np.empty((len(spreads), *noises.shape)), np.zeros((len(spreads), len(values)))
        for r in np.argsort(-noises.sum(axis=1)):  # much noise is easy, and each leads to the next
            start, found[:, r] = _at_saddle(errors, squares, bends, noises[r], start)
        return found


def _at_saddle(errors: Array, squares: Array, bends: Array, noise: Array, start: Array) -> tuple[Array, Array]:
    """Saddle points and log densities there, each (S, n), of errors (n,), for squares and bends (S, n, K)."""
    with np.errstate(divide="ignore"):
        ends = 0.5 / bends
    furthest = (np.abs(errors) + np.abs(bends).sum(axis=2)) / noise
    low = np.maximum(np.where(bends < 0, ends, -np.inf).max(axis=2, initial=-np.inf), -furthest)
    high = np.minimum(np.where(bends > 0, ends, np.inf).min(axis=2, initial=np.inf), furthest)
    t = np.where((low < start) & (start < high), start, (low + high) / 2)
    for _ in range(_STEPS):
        along, parts = bends * t[..., None], 1 / (1 - 2 * bends * t[..., None])
        slope = parts * (squares * t[..., None] * (1 + along * parts) + bends)
        off = slope.sum(axis=2) + noise * t - errors
        curvature = (parts**2 * (squares * parts + 2 * bends**2)).sum(axis=2) + noise
        if np.all(np.abs(off) <= _NEAR * np.sqrt(curvature)):
            break
        low, high = np.where(off < 0, t, low), np.where(off > 0, t, high)
        step = t - off / curvature
        t = np.where((low < step) & (step < high), step, (low + high) / 2)
    parts = 1 / (1 - 2 * bends * t[..., None])
    curvature = (parts**2 * (squares * parts + 2 * bends**2)).sum(axis=2) + noise
    cumulant = (squares * t[..., None] ** 2 * parts + np.log(parts)).sum(axis=2) / 2 + noise * t**2 / 2
    return t, cumulant - t * errors - 0.5 * np.log(2 * np.pi * curvature)
