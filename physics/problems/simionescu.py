"""Simionescu's function: a saddle inside a flower."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constrained import ConstrainedFormula

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Simionescu(ConstrainedFormula):
    """f = 0.1 x1 x2 where x1^2 + x2^2 <= (1 + 0.2 cos 8 phi)^2, phi the polar angle; half of the box is feasible.

    Two minima of -0.072 at opposite petals (Simionescu, 2014).
    """

    bounds = ((-1.25, 1.25), (-1.25, 1.25))
    constraints = 1
    spread = 0.0521
    best = ((0.6 * np.sqrt(2.0), -0.6 * np.sqrt(2.0)), -0.072)

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        x1, x2 = np.asarray(points, dtype=np.float64).T
        return np.asarray(0.1 * x1 * x2)

    def exact_constraints(self, points: Array) -> Array:
        """Squared radius less that of the flower at the points (n, 2), shape (n, 1)."""
        x1, x2 = np.asarray(points, dtype=np.float64).T
        edge = 1 + 0.2 * np.cos(8 * np.arctan2(x2, x1))
        return np.asarray(x1**2 + x2**2 - edge**2)[:, None]
