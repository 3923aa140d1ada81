"""The design of a gas transmission compressor: four variables, one constraint."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constrained import ConstrainedFormula

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GasCompressor(ConstrainedFormula):
    """Yearly cost of a compressor station (Beightler and Phillips, 1976, in the form of Kumar et al., 2020).

    x1: miles between stations; x2: compression ratio; x3: inner diameter of the pipe in inches; x4 = x2^2 - 1 at the
    optimum, where the constraint (1 + x4) / x2^2 <= 1 is active. Half of the box is feasible.
    """

    bounds = ((20.0, 50.0), (1.0, 10.0), (20.0, 50.0), (0.1, 60.0))
    constraints = 1
    spread = 5.27e6
    best = ((50.0, 1.1782839443501745, 24.5925903608087, 0.388353053513405), 2964895.4173391624)

    def exact(self, points: Array) -> Array:
        """f at the points (n, 4), shape (n,)."""
        x1, x2, x3, x4 = np.asarray(points, dtype=np.float64).T
        pipe = 8.61e5 * np.sqrt(x1 / x4) * x2 * x3 ** (-2 / 3) + 3.69e4 * x3
        return np.asarray(pipe + (7.72e8 * x2**0.219 - 765.43e6) / x1)

    def exact_constraints(self, points: Array) -> Array:
        """(1 + x4) / x2^2 - 1 at the points (n, 4), shape (n, 1)."""
        _, x2, _, x4 = np.asarray(points, dtype=np.float64).T
        return np.asarray((1 + x4) / x2**2 - 1)[:, None]
