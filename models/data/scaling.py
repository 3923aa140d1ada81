"""Scaling of results: the targets that a surrogate learns, standardised and minimised."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldcraft.models.data.arrays import Array

# Below this ratio of spread to size, differences between results are rounding and carry no scale.
_CONSTANT = 1e-13


@dataclass(frozen=True)
class Scaling:
    """The map between results y (physical) and targets t (standardised, minimised): y = mean + sign * sd * t.

    Args:
        mean: Mean of the results, in the objective's unit.
        sd: Positive scale, in the objective's unit.
        sign: 1.0 where the objective is minimised, -1.0 where it is maximised.
    """

    mean: float
    sd: float
    sign: float

    def to_target(self, y: ArrayLike) -> Array:
        """Results in physical units converted to targets, same shape."""
        return np.asarray(self.sign * (np.asarray(y, dtype=np.float64) - self.mean) / self.sd)

    def to_physical(self, t: ArrayLike) -> Array:
        """Targets converted to results in physical units, same shape."""
        return np.asarray(self.mean + self.sign * self.sd * np.asarray(t, dtype=np.float64))

    @classmethod
    def of(cls, y: ArrayLike, *, maximize: bool, limit: bool = False) -> "Scaling":
        """Scaling by mean and sample standard deviation (n - 1) of results y (n,).

        Sums are exactly rounded, so the scaling does not depend on the order of the trials. One result, or constant
        ones, have no deviation. Those of a constraint are then scaled by their distance from zero, so that its unit
        does not matter; others, and constraints that are zero, by 1.

        Args:
            y: Results, shape (n,), n >= 1.
            maximize: True if they are maximised.
            limit: True if they are those of a constraint.
        """
        values = np.asarray(y, dtype=np.float64)
        mean = math.fsum(values / len(values))
        sd = deviation(values, mean) or (abs(mean) if limit else 0.0) or 1.0
        return cls(mean=mean, sd=sd, sign=-1.0 if maximize else 1.0)


def deviation(values: Array, mean: float) -> float:
    """Sample standard deviation of values (n,) of this mean; 0 for one value, or if all are equal to rounding."""
    deviations = values - mean
    widest = float(np.max(np.abs(deviations)))
    if len(values) == 1 or widest <= _CONSTANT * float(np.max(np.abs(values))):
        return 0.0
    return widest * math.sqrt(math.fsum((deviations / widest) ** 2) / (len(values) - 1))
