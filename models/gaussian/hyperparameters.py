"""Priors of the hyper-parameters of a sum of kernels, all as logarithms, the search for the likeliest values, and
values about as likely."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Interval = tuple[float, float]

SIZE_SD = 1.5
"""Of the log of a prior variance around the log of its share: wide enough for a part that does not matter."""
NOISE_SD = 1.0
"""Of the log of a result's variance, where it is fitted."""
SIZES: Interval = (math.log(1e-6), math.log(1e2))
"""Bounds of the log of a prior variance."""
SCALES: Interval = (math.log(0.02), math.log(1e3))
"""Bounds of the log of a length scale."""

_NOISE_MEAN = -4.0
_NOISES: Interval = (math.log(1e-6), 0.0)
# What the search takes for minus the log density where there is none.
_NEVER = 1e10
_MOST = 200
# Seed of the draws around the likeliest values: they are a function of the density alone.
_DRAWS = 13
# Step of the differences of a gradient, in logarithms.
_STEP = 0.05


class Density(Protocol):
    """The posterior density of p hyper-parameters: normal priors of ``centre`` and ``spread`` (p,), within bounds."""

    @property
    def centre(self) -> Array:
        """Means of the priors, shape (p,)."""
        ...

    @property
    def spread(self) -> Array:
        """Standard deviations of the priors, shape (p,)."""
        ...

    @property
    def bounds(self) -> Sequence[Interval]:
        """Least and largest value of each, p pairs."""
        ...

    def __call__(self, flat: Array) -> tuple[float, Array]:
        """Logarithm of the density at flat (p,), minus infinity where there is none, and its gradient (p,)."""
        ...


def noise_prior(noise_variance: float | None) -> tuple[float, Interval]:
    """Mean and bounds of the log variance of a result, which is known or, if None, fitted."""
    if noise_variance is None:
        return _NOISE_MEAN, _NOISES
    known = math.log(max(noise_variance, math.exp(_NOISES[0])))
    return known, (known, known)


@dataclass(frozen=True)
class Halving:
    """Search in which all starts make a few iterations, and the best of them then goes on alone.

    Args:
        tried: Iterations from each start; None for full searches from each.
        accuracy: Gain of an iteration, relative to the density, below which the search ends.
    """

    tried: int | None = None
    accuracy: float = 2e-9


def likeliest(density: Density, starts: Array, trials: int, by: Halving = Halving()) -> tuple[Array, float]:
    """Hyper-parameters (p,) of the largest posterior density, and its logarithm.

    Args:
        density: Of the hyper-parameters.
        starts: Standard normal offsets from the centre of the prior to begin L-BFGS-B at, shape (s, p).
        trials: Number of trials it was computed from, for the error.
        by: Way to search.

    Raises:
        ValueError: no start gave a finite density.
    """

    def negative(flat: Array) -> tuple[float, Array]:
        value, slope = density(flat)
        return (-value, -slope) if math.isfinite(value) else (_NEVER, np.zeros_like(slope))

    def search(begin: Array, iterations: int) -> "OptimizeResult":
        options = {"maxiter": iterations, "ftol": by.accuracy}
        return minimize(negative, begin, jac=True, method="L-BFGS-B", bounds=density.bounds, options=options)

    low, high = np.array(density.bounds).T
    begins = np.clip(density.centre + density.spread * starts, low, high)
    best = min((search(begin, by.tried or _MOST) for begin in begins), key=lambda result: float(result.fun))
    if best.fun >= _NEVER:
        raise ValueError(
            f"No hyper-parameters of the additive process give a finite likelihood ({len(starts)} starts, {trials} "
            "trials): look for extreme results."
        )
    if by.tried is not None:
        best = search(best.x, _MOST)
    return best.x, -float(best.fun)


def around(
    density: Callable[[Array], tuple[float, Array]], likeliest: Array, spread: Array, least: Array, count: int
) -> tuple[Array, Array]:
    """Draws from a posterior density of hyper-parameters, by importance sampling from its Laplace approximation.

    With H the negative Hessian at the likeliest values, by differences of the gradient, draws are from N(likeliest,
    H^-1), no wider along any direction than the priors, in pairs on either side. A draw counts in proportion to the
    density over that of the normal distribution.

    Args:
        density: Logarithm of the density at theta (p,), and its gradient (p,).
        likeliest: Where it is largest, shape (p,).
        spread: Standard deviations of the priors, shape (p,).
        least: Least value of each, shape (p,).
        count: Number of draws, even.

    Returns:
        The draws, shape (count, p), and their shares of the belief, shape (count,). Where the density is zero at all of
        them, the likeliest values alone, with the share 1.
    """
    ahead = np.stack([density(likeliest + step)[1] for step in _STEP * np.eye(len(likeliest))])
    behind = np.stack([density(likeliest - step)[1] for step in _STEP * np.eye(len(likeliest))])
    hessian = (behind - ahead) / (2 * _STEP)
    curvatures, axes = np.linalg.eigh((hessian + hessian.T) / 2 * np.outer(spread, spread))
    half = np.random.default_rng(_DRAWS).standard_normal((count // 2, len(likeliest)))
    normal = np.concatenate([half, -half])
    draws = np.maximum(likeliest + spread * ((normal / np.sqrt(np.maximum(curvatures, 1.0))) @ axes.T), least)
    logs = np.array([density(draw)[0] for draw in draws]) + 0.5 * (normal**2).sum(axis=1)
    if not np.isfinite(logs.max()):
        return likeliest[None], np.ones(1)
    shares = np.exp(logs - logs.max())
    return draws, shares / shares.sum()
