"""Rosenbrock's function of two variables: a curved valley."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.formulas import Formula
from fieldcraft.physics.problem import Optimum, Sense
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rosenbrock(Formula):
    """f = (1 - x1)^2 + 100 (x2 - x1^2)^2 on [-2, 2] x [-1, 3] (Rosenbrock, 1960); the minimum is 0 at (1, 1)."""

    dimension = 2
    interval = (-2.0, 3.0)

    @property
    def space(self) -> SearchSpace:
        """x1 in [-2, 2] and x2 in [-1, 3], pure numbers."""
        return SearchSpace((Continuous("x1", -2.0, 2.0), Continuous("x2", -1.0, 3.0)))

    @property
    def sd(self) -> float:
        """Standard deviation over the space."""
        return 374.6

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        x1, x2 = np.asarray(points, dtype=np.float64).T
        return np.asarray((1 - x1) ** 2 + 100 * (x2 - x1**2) ** 2)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The minimum; None for the maximum."""
        return self.everywhere(0.0, at=1.0) if sense == "minimize" else None
