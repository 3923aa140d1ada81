"""Ackley's function of five variables between two shells and inside a cube."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constrained import ConstrainedFormula
from fieldcraft.physics.problems.ackley import Ackley

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ConstrainedAckley(ConstrainedFormula):
    """Ackley's function on [-5, 3]^5 where (|x - 1| - 5.5)^2 >= 1 and every |x_i| <= 3 (Zhang et al., 2023).

    13% of the box is feasible, the minimum 0 at 0 among it.
    """

    bounds = ((-5.0, 3.0),) * 5
    constraints = 2
    spread = 1.554
    best = ((0.0,) * 5, 0.0)

    def exact(self, points: Array) -> Array:
        """f at the points (n, 5), shape (n,)."""
        return Ackley(dimension=5).exact(points)

    def exact_constraints(self, points: Array) -> Array:
        """1 - (|x - 1| - 5.5)^2 and max x_i^2 - 9 at the points (n, 5), shape (n, 2)."""
        points = np.asarray(points, dtype=np.float64)
        shell = 1 - (np.linalg.norm(points - 1, axis=1) - 5.5) ** 2
        return np.stack([shell, np.max(points**2, axis=1) - 9], axis=1)
