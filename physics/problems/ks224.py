"""Problem 224 of Schittkowski's collection: a parabola of two variables cut by straight lines."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.formulas import Formula
from fieldcraft.physics.problem import Optimum, Sense
from fieldcraft.physics.space import LinearConstraint, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KS224(Formula):
    """f = 2 x1^2 + x2^2 - 48 x1 - 40 x2 on [0, 6]^2, where 0 <= x1 + 3 x2 <= 18 and 0 <= x1 + x2 <= 8.

    The constraints are known beforehand (Schittkowski, 1987). The minimum is -304 at (4, 4), where x1 + x2 = 8.
    """

    dimension = 2
    interval = (0.0, 6.0)

    @property
    def space(self) -> SearchSpace:
        """x1 and x2, pure numbers; the lower ends of both sums hold in the whole box."""
        cuts = (LinearConstraint({"x1": 1.0, "x2": 3.0}, 18.0), LinearConstraint({"x1": 1.0, "x2": 1.0}, 8.0))
        return SearchSpace(super().space.variables, cuts)

    @property
    def sd(self) -> float:
        """Standard deviation over the space."""
        return 66.1

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        x1, x2 = np.asarray(points, dtype=np.float64).T
        return np.asarray(2 * x1**2 + x2**2 - 48 * x1 - 40 * x2)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The minimum; None for the maximum."""
        return self.everywhere(-304.0, at=4.0) if sense == "minimize" else None
