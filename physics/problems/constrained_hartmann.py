"""Hartmann's function of six variables inside the unit ball."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constrained import ConstrainedFormula
from fieldcraft.physics.problems.hartmann import Hartmann

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ConstrainedHartmann(ConstrainedFormula):
    """Hartmann's function on [0, 1]^6 where |x| <= 1 (Letham et al., 2019); 8% of the box is feasible."""

    bounds = ((0.0, 1.0),) * 6
    constraints = 1
    spread = 0.385
    best = (
        (0.20168951100671, 0.15001069182346, 0.47687397422190, 0.27533243049406, 0.31165161660011, 0.65730053406562),
        -3.3223680114155156,
    )

    def exact(self, points: Array) -> Array:
        """f at the points (n, 6), shape (n,)."""
        return Hartmann().exact(points)

    def exact_constraints(self, points: Array) -> Array:
        """|x| - 1 at the points (n, 6), shape (n, 1)."""
        return np.asarray(np.linalg.norm(np.asarray(points, dtype=np.float64), axis=1, keepdims=True) - 1)
