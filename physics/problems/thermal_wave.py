"""The ground under a surface that warms and cools with the year: where and when it is warmest or coldest."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import exponential, sine
from fieldcraft.physics.operators import LinearEquation, Values
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]

_DEPTH, _YEAR = 3.0, 365.0  # m, d
_DIFFUSIVITY = 0.05  # m2/d
_MEAN, _SWING = 10.0, 8.0  # degC, K
_PULSE = 2 * math.pi / _YEAR
# A wave of this pulse falls by e, and is late by one radian, in the depth 1 / _DECAY.
_DECAY = math.sqrt(_PULSE / (2 * _DIFFUSIVITY))


@dataclass(frozen=True)
class ThermalWave(Problem):
    """The temperature of the ground, T_t = D T_xx with D = 0.05 m2/d, by the depth x and the time t of a year.

    T = 10 + 8 exp(-s x) sin(w t - s x), w = 2 pi / 365 d, s = sqrt(w / 2 D) (Carslaw and Jaeger, 1959, section 2.6).
    The profile on the first day is known; the surface, whose temperature drives it, and what lies deeper are not. It is
    warmest at the surface after a quarter of the year, and coldest there after three quarters.
    """

    @property
    def space(self) -> SearchSpace:
        """Depth x, in m, and time t, in d."""
        return SearchSpace((Continuous("x", 0.0, _DEPTH, "m"), Continuous("t", 0.0, _YEAR, "d")))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The temperature there and then, in degC."""
        return (Output("temperature", "degC"),)

    @property
    def domain(self) -> Domain:
        """Three metres of ground over a year."""
        return Domain((Axis("x", 0.0, _DEPTH, "m"), Axis("t", 0.0, _YEAR, "d")))

    @property
    def equation(self) -> LinearEquation:
        """T_t - D T_xx = 0."""
        return LinearEquation(0.0, (0.0, 1.0), ((-_DIFFUSIVITY, 0.0), (0.0, 0.0)))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The profile on the first day."""
        return (Condition("temperature", "t", "low", _temperature),)

    @property
    def sd(self) -> float:
        """Standard deviation of the temperature over depth and time, in K."""
        return 3.4334

    def exact(self, points: Array) -> Array:
        """T in degC at the points (n, 2), in m and d, shape (n,)."""
        return np.asarray(_temperature(np.asarray(points, dtype=np.float64)))

    def optimum(self, sense: Sense) -> Optimum:
        """The surface after a quarter of the year (warmest) or three quarters (coldest)."""
        sign = 1 if sense == "maximize" else -1
        return Optimum({"x": 0.0, "t": (0.5 - sign * 0.25) * _YEAR}, _MEAN + sign * _SWING)


def _temperature(points: Values) -> Values:
    depth = _DECAY * points[:, 0]
    return _MEAN + _SWING * exponential(-depth) * sine(_PULSE * points[:, 1] - depth)
