"""Priors of the hyper-parameters of a sum of kernels, all as logarithms, and the search for the likeliest values."""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from fieldcraft.models.observations import Array

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


def likeliest(density: Density, starts: Array, trials: int) -> tuple[Array, float]:
    """Hyper-parameters (p,) of the largest posterior density, and its logarithm.

    Args:
        density: Of the hyper-parameters.
        starts: Standard normal offsets from the centre of the prior to begin L-BFGS-B at, shape (s, p).
        trials: Number of trials it was computed from, for the error.

    Raises:
        ValueError: no start gave a finite density.
    """

    def negative(flat: Array) -> tuple[float, Array]:
        value, slope = density(flat)
        return (-value, -slope) if math.isfinite(value) else (_NEVER, np.zeros_like(slope))

    low, high = np.array(density.bounds).T
    found = []
    for start in starts:
        begin = np.clip(density.centre + density.spread * start, low, high)
        options = {"maxiter": 200}
        found.append(minimize(negative, begin, jac=True, method="L-BFGS-B", bounds=density.bounds, options=options))
    best = min(found, key=lambda result: float(result.fun))
    if best.fun >= _NEVER:
        raise ValueError(
            f"No hyper-parameters of the additive process give a finite likelihood ({len(starts)} starts, {trials} "
            "trials): look for extreme results."
        )
    return best.x, -float(best.fun)
