"""Branin's function inside a disc: two of its three minima lie there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constrained import ConstrainedFormula
from fieldcraft.physics.problems.branin import Branin

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ConstrainedBranin(ConstrainedFormula):
    """Branin's function where (x1 - 2.5)^2 + (x2 - 7.5)^2 <= 50 (Letham et al., 2019); 70% of the box is feasible."""

    bounds = ((-5.0, 10.0), (0.0, 15.0))
    constraints = 1
    spread = 51.2
    best = ((np.pi, 2.275), 0.397887357729738)

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        return Branin().exact(points)

    def exact_constraints(self, points: Array) -> Array:
        """Squared distance from the disc's centre less its squared radius at the points (n, 2), shape (n, 1)."""
        away = np.asarray(points, dtype=np.float64) - (2.5, 7.5)
        return np.asarray(np.sum(away**2, axis=1, keepdims=True) - 50.0)
