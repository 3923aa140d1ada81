"""Branin's function: two variables, three equal minima. An analytic problem for trying things out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Branin(Problem):
    """f(x1, x2) = (x2 - 5.1 x1^2 / (4 pi^2) + 5 x1 / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos x1 + 10 (Branin, 1972)."""

    @property
    def space(self) -> SearchSpace:
        """x1 in [-5, 10] and x2 in [0, 15], pure numbers."""
        return SearchSpace((Continuous("x1", -5.0, 10.0), Continuous("x2", 0.0, 15.0)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The function's value, a pure number."""
        return (Output("value"),)

    @property
    def sd(self) -> float:
        """Standard deviation over the space."""
        return 51.2

    def optimum(self, sense: Sense) -> Optimum:
        """One of the three minima, all equal, or the maximum, at a corner."""
        place = (math.pi, 2.275) if sense == "minimize" else (-5.0, 0.0)
        return Optimum(dict(zip(("x1", "x2"), place, strict=True)), float(self.exact(np.array([place]))[0]))

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        x1, x2 = np.asarray(points, dtype=np.float64).T
        valley = x2 - 5.1 * x1**2 / (4 * math.pi**2) + 5 * x1 / math.pi - 6
        return np.asarray(valley**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x1) + 10)

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        return {"value": float(self.exact(np.array([[float(design["x1"]), float(design["x2"])]]))[0])}
