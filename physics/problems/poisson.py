"""A membrane under a uniform load, of whose rim one side was measured: where it is highest."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import cosine, exponential
from fieldcraft.physics.operators import LinearEquation, Values, poisson
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]

_LOAD = 4 * math.pi**2
# a and b of a f + b df/dn at the side y = 0.
_KNOWN = {"value": (1.0, 0.0), "flux": (0.0, 1.0), "robin": (1.0, 0.5)}


@dataclass(frozen=True)
class Poisson(Problem):
    """The height of a membrane, f_xx + f_yy = -4 pi^2 on [0, 1]^2, at a place (x, y).

    f = cos(pi (x - 1/3)) exp(-pi (y - 1/2)) + pi (y - 1/2) - 2 pi^2 (y - 1/2)^2: the first two terms are harmonic, the
    last bears the load. The side y = 0 is known, the other three are not. It is highest at x = 1/3 for every y,
    and there at y = 1/2, where it is 1. Everything is a pure number.

    Args:
        known: What is known at y = 0: the ``value`` f, the ``flux`` df/dn, or ``robin``, f + df/dn / 2.

    Raises:
        ValueError: another word.
    """

    known: Literal["value", "flux", "robin"] = "value"

    def __post_init__(self) -> None:
        if self.known not in _KNOWN:
            raise ValueError(f"The poisson problem knows nothing called {self.known!r}: choose value, flux or robin.")

    @property
    def space(self) -> SearchSpace:
        """The place (x, y)."""
        return SearchSpace((Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The height there."""
        return (Output("height"),)

    @property
    def domain(self) -> Domain:
        """The membrane."""
        return Domain((Axis("x", 0.0, 1.0), Axis("y", 0.0, 1.0)))

    @property
    def equation(self) -> LinearEquation:
        """Poisson's equation with a uniform load."""
        return poisson(2, -_LOAD)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The side y = 0."""
        value, slope = _KNOWN[self.known]

        def right(points: Values) -> Values:
            return value * _height(points) - slope * _rise(points)

        return (Condition("height", "y", "low", right, value, slope),)

    @property
    def sd(self) -> float:
        """Standard deviation of the height over the membrane."""
        return 1.5205

    def exact(self, points: Array) -> Array:
        """f at the points (n, 2), shape (n,)."""
        return np.asarray(_height(np.asarray(points, dtype=np.float64)))

    def optimum(self, sense: Sense) -> Optimum | None:
        """The highest place, (1/3, 1/2); None for the lowest."""
        return Optimum({"x": 1 / 3, "y": 0.5}, 1.0) if sense == "maximize" else None


def _wave(points: Values) -> Values:
    return cosine(math.pi * (points[:, 0] - 1 / 3)) * exponential(-math.pi * (points[:, 1] - 0.5))


def _height(points: Values) -> Values:
    y = points[:, 1] - 0.5
    return _wave(points) + math.pi * y - 0.5 * _LOAD * y**2


def _rise(points: Values) -> Values:
    """df/dy."""
    return -math.pi * _wave(points) + math.pi - _LOAD * (points[:, 1] - 0.5)
