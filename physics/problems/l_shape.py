"""A membrane over an L-shaped frame: the corner at its notch, where no solution is smooth, and its highest place."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, poisson
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LShape(Problem):
    """The height of a membrane, f_xx + f_yy = -2 on the square [-1, 1]^2 without its quadrant x > 0, y < 0.

    f = r^(2/3) sin(2 phi / 3) - r^2 / 2 in polar coordinates around the notch: the harmonic function of a corner of 270
    degrees (Grisvard, 1985), whose slope has no bound there, under a uniform load. The two short sides x = 1 and y = -1
    are known, the long ones and the notch are not. For every r it is highest at phi = 3 pi / 4, and there at
    r = (2/3)^(3/4), where it is (2/3)^(3/2). It is lowest, -1/2, at (1, 0) and (0, -1). Everything is a pure number.

    A design in the notch has no result: a simulator refuses it.
    """

    @property
    def space(self) -> SearchSpace:
        """The place (x, y) in the square around the L."""
        return SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The height there."""
        return (Output("height"),)

    @property
    def domain(self) -> Domain:
        """The L."""
        return Domain((Axis("x", -1.0, 1.0), Axis("y", -1.0, 1.0)), _in_l)

    @property
    def equation(self) -> LinearEquation:
        """Poisson's equation with a uniform load."""
        return poisson(2, -2.0)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The two short sides."""
        return (Condition("height", "x", "high", self.exact), Condition("height", "y", "low", self.exact))

    @property
    def sd(self) -> float:
        """Standard deviation of the height over the L."""
        return 0.25953

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), NaN in the notch; shape (n,)."""
        x, y = np.asarray(points, dtype=np.float64).T
        phi = np.mod(np.arctan2(y, x), 2 * math.pi)
        squares = x**2 + y**2
        return np.where(_in_l(np.column_stack([x, y])), np.cbrt(squares) * np.sin(2 * phi / 3) - squares / 2, np.nan)

    def optimum(self, sense: Sense) -> Optimum:
        """The highest place, or one of the two lowest."""
        if sense == "minimize":
            return Optimum({"x": 1.0, "y": 0.0}, -0.5)
        side = (2 / 3) ** 0.75 / math.sqrt(2)
        return Optimum({"x": -side, "y": side}, (2 / 3) ** 1.5)


def _in_l(points: Array) -> NDArray[np.bool_]:
    return np.asarray(~((points[:, 0] > 0) & (points[:, 1] < 0)))
