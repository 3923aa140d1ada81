"""The drop-wave function: rings around a deep centre."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain
from fieldcraft.physics.formulas import Formula
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.problem import Optimum, Sense

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DropWave(Formula):
    """f = -(1 + cos 12 r) / (r^2 / 2 + 2) with r^2 = x1^2 + x2^2, on [-5.12, 5.12]^2.

    Known of it, and not from its formula: it depends on the distance to the centre alone, so x1 f_2 - x2 f_1 = 0.
    """

    dimension = 2
    interval = (-5.12, 5.12)

    @property
    def sd(self) -> float:
        """Standard deviation over the space."""
        return 0.1489

    @property
    def domain(self) -> Domain:
        """The whole space."""
        return self.box

    @property
    def equation(self) -> LinearEquation:
        """x1 df/dx2 - x2 df/dx1 = 0: nothing changes along a circle around the centre."""
        along = (lambda points: -points[:, 1], lambda points: points[:, 0])
        return LinearEquation(0.0, along, ((0.0, 0.0), (0.0, 0.0)))

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        square = np.sum(np.asarray(points, dtype=np.float64) ** 2, axis=1)
        return np.asarray(-(1 + np.cos(12 * np.sqrt(square))) / (square / 2 + 2))

    def optimum(self, sense: Sense) -> Optimum | None:
        """The minimum, -1 in the centre; None for the maximum, which is 0 on whole circles."""
        return self.everywhere(-1.0, at=0.0) if sense == "minimize" else None
