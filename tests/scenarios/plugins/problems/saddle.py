"""A harmonic function on a square: analytic, with an equation, so that a campaign over it passes every step."""

from dataclasses import dataclass

import numpy as np

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, laplace
from fieldcraft.physics.problem import Optimum, Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Saddle(Problem):
    """f = x^2 - y^2 + 3 x y + x over [-1, 1]^2, which satisfies f_xx + f_yy = 0."""

    @property
    def space(self):
        return SearchSpace((Continuous("x", -1.0, 1.0, "m"), Continuous("y", -1.0, 1.0, "m")))

    @property
    def outputs(self):
        return (Output("height", "m"),)

    @property
    def domain(self):
        return Domain((Axis("x", -1.0, 1.0, "m"), Axis("y", -1.0, 1.0, "m")))

    @property
    def equation(self) -> LinearEquation:
        return laplace(2)

    def optimum(self, sense):
        return Optimum({"x": 1.0, "y": 1.0}, 4.0) if sense == "maximize" else None

    def exact(self, points):
        x, y = np.asarray(points).T
        return x**2 - y**2 + 3 * x * y + x
