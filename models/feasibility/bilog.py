"""Bilog transform of a constraint (Eriksson and Poloczek, 2021): linear near zero, a logarithm far from it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from fieldcraft.models.observations import Array

# A scale is at least this share of the largest result.
_LEAST_SHARE = 1e-6
# Below this deviation, in scales, the transform is a straight line to eight digits; closed forms would cancel.
_STRAIGHT = 1e-4
# A larger deviation, in scales, counts as this in moments: their squares must remain float64.
_WIDEST = 15.0


@dataclass(frozen=True)
class Bilog:
    """b(c) = s sign(c) log(1 + |c| / s), which rises, keeps zero and has slope 1 there.

    A constraint c <= 0 holds exactly where b(c) <= 0. With s = 1 it is the transform of SCBO (Eriksson and Poloczek,
    2021).

    Args:
        scale: s > 0, in the constraint's unit, as b is.
    """

    scale: float

    @classmethod
    def of(cls, c: ArrayLike) -> "Bilog":
        """The transform whose scale is the median magnitude of results c (n,), not all zero.

        The scale is no less than a millionth of the largest magnitude.
        """
        sizes = np.abs(np.asarray(c, dtype=np.float64))
        return cls(max(float(np.median(sizes)), _LEAST_SHARE * float(sizes.max())))

    def bent(self, c: ArrayLike) -> Array:
        """b at results c, same shape; its sign is that of c, however small c is."""
        values = np.asarray(c, dtype=np.float64)
        ratio = np.abs(values) / self.scale
        small = ratio == 0
        return np.asarray(values * np.where(small, 1.0, np.log1p(ratio) / np.where(small, 1.0, ratio)))

    def straight(self, b: ArrayLike) -> Array:
        """Results c, same shape as b: s sign(b) (exp(|b| / s) - 1)."""
        values = np.asarray(b, dtype=np.float64)
        return np.asarray(self.scale * np.sign(values) * np.expm1(np.abs(values) / self.scale))

    def slope(self, c: ArrayLike) -> Array:
        """db/dc = 1 / (1 + |c| / s) at c, same shape."""
        return np.asarray(1 / (1 + np.abs(np.asarray(c, dtype=np.float64)) / self.scale))

    def moments(self, mean: float, sd: float) -> tuple[float, float]:
        """Mean and standard deviation of c where b is normal with this mean and standard deviation >= 0.

        With u = b / s ~ N(m, t^2), E[exp(k u); u > 0] = exp(k m + k^2 t^2 / 2) Phi(m / t + k t), and the same of -u.
        """
        m, t = mean / self.scale, min(sd / self.scale, _WIDEST)
        if t < _STRAIGHT:
            center = float(self.straight(mean))
            return center, sd / float(self.slope(center))
        (up, up2), (down, down2) = _above(m, t), _above(-m, t)
        variance = up2 + down2 - (up - down) ** 2
        return self.scale * (up - down), self.scale * math.sqrt(max(variance, 0.0))


def _above(m: float, t: float) -> tuple[float, float]:
    """E[exp(u) - 1; u > 0] and E[(exp(u) - 1)^2; u > 0] for u ~ N(m, t^2)."""
    zeroth, first, second = (math.exp(k * m + (k * t) ** 2 / 2) * float(ndtr(m / t + k * t)) for k in range(3))
    return first - zeroth, second - 2 * first + zeroth
