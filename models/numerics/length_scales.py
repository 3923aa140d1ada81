"""Length scales before any data: all priors of them, log l ~ N(mean, sd^2).

Distances between points of a box grow as the root of its dimension d. The means grow likewise: with fixed length scales
all points in ten or more dimensions would be uncorrelated.

BoTorch's prior leaves each coordinate free: some tens of trials in ten coordinates then explain themselves by chance.
One that is narrow about the same mode predicts better, but cannot learn a function that is nearly linear. In ``Either``
the two compete, for all coordinates at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNIT_MEAN, STATIONARY_SD = math.sqrt(2.0), math.sqrt(3.0)
"""Of a stationary kernel over [0, 1], one coordinate; in d, log(d) / 2 is added (Hvarfner et al., 2024; BoTorch's)."""
ENCODED_MEAN = UNIT_MEAN + math.log(2.0)
"""The same over encoded coordinates, [-1, 1]."""
NARROW_SD = 0.5
"""Of the narrow prior of a stationary kernel, and of that of a tangent kernel."""
EQUATION = (0.0, 0.5)
"""Mean and sd where an equation is imposed, over [-1, 1]: half the box's width, which few results move far."""

_TANGENT = {"sine": 0.41, "erf": 0.41, "tanh": 0.41, "relu": 0.5}
# As many times that for functions nearly linear in most coordinates, as engineers' constraints are, which a dozen
# trials then foretell; results of rugged ones make the shorter scale the more probable.
_SMOOTH = 3.0


LONGER = math.log(4.0)
"""How far beyond the mode of ``scale_prior`` a second ascent begins: near it, an ascent sees the narrow prior alone."""

# Least length scale of a stationary kernel over [0, 1]: BoTorch's.
_LEAST = 0.025


@dataclass(frozen=True)
class LogNormal:
    """Prior of a positive parameter p: log p ~ N(location, spread^2), and p is no less than ``least``."""

    location: float
    spread: float
    least: float

    @property
    def mode(self) -> float:
        """Logarithm of the p of largest density: below the median by the square of the spread."""
        return self.location - self.spread**2

    def log_density(self, log_p: Array) -> tuple[Array, Array]:
        """Sum of the log densities of p, shape (...), and the derivative by each log p, for log p (..., k)."""
        z = (log_p - self.location) / self.spread
        normaliser = log_p.shape[-1] * math.log(self.spread * math.sqrt(2 * math.pi))
        return -0.5 * (z * z).sum(axis=-1) - log_p.sum(axis=-1) - normaliser, -z / self.spread - 1


@dataclass(frozen=True)
class Either:
    """Prior of k positive parameters that all have the one prior or all the other.

    A density is searched for its height, and a narrow prior is the higher, by the ratio of the spreads for each
    parameter, also where the data leave that free. The root of it is taken back: ``wide`` is the more probable by
    (ratio of the spreads)^(k/2). Draws, bounds and the mode are those of ``wide``.

    Args:
        wide: The one prior.
        narrow: The other, with the same mode.
    """

    wide: LogNormal
    narrow: LogNormal

    @property
    def location(self) -> float:
        """Mean of log p under the wide prior."""
        return self.wide.location

    @property
    def spread(self) -> float:
        """Standard deviation of log p under the wide prior."""
        return self.wide.spread

    @property
    def least(self) -> float:
        """Least value of p."""
        return self.wide.least

    @property
    def mode(self) -> float:
        """Logarithm of the p of largest density, in each of the two."""
        return self.wide.mode

    def log_density(self, log_p: Array) -> tuple[Array, Array]:
        """Log of the density of p, shape (...), and the derivative by each log p, for log p (..., k)."""
        (one, by_one), (other, by_other) = self.wide.log_density(log_p), self.narrow.log_density(log_p)
        odds = 0.5 * log_p.shape[-1] * math.log(self.wide.spread / self.narrow.spread)
        value = np.logaddexp(one + odds, other)
        share = np.exp(one + odds - value)[..., None]
        return value - np.logaddexp(odds, 0.0), share * by_one + (1 - share) * by_other


ScalePrior = Callable[[int], LogNormal | Either]
"""Prior of d length scales over the unit cube."""


def wide_prior(d: int) -> LogNormal:
    """BoTorch's prior of each of d length scales over the unit cube (Hvarfner et al., 2024)."""
    return LogNormal(location=unit_mean(d), spread=STATIONARY_SD, least=_LEAST)


def scale_prior(d: int) -> Either:
    """Prior of d length scales over the unit cube: BoTorch's, or one that is narrow about the same mode."""
    wide = wide_prior(d)
    return Either(wide, LogNormal(location=wide.mode + NARROW_SD**2, spread=NARROW_SD, least=_LEAST))


def encoded_mode(d: int) -> float:
    """Logarithm of the mode of both, over [-1, 1]^d."""
    return wide_prior(d).mode + math.log(2.0)


def unit_mean(d: int) -> float:
    """Mean of log l for a stationary kernel over [0, 1]^d."""
    return UNIT_MEAN + 0.5 * math.log(d)


def encoded_mean(d: int) -> float:
    """Mean of log l for a stationary kernel over [-1, 1]^d."""
    return ENCODED_MEAN + 0.5 * math.log(d)


def tangent_centres(d: int, activation: str) -> tuple[float, float]:
    """Medians of l for the tangent kernel of a dense network over [-1, 1]^d, of two competing priors."""
    centre = tangent_centre(activation) * math.sqrt(d)
    return centre, _SMOOTH * centre


def tangent_centre(activation: str) -> float:
    """Median of l for the tangent kernel of a network of one coordinate, or of one with patches of few pixels."""
    return _TANGENT[activation]
