"""Steady heat on a square plate whose boundary temperatures the optimiser does not know.

Boundary sets 1 to 3 of the thesis's section 5.4.3.1 (PINN-BO), with two corrections to set 1: its labels are transposed
there, and its fourth formula, complex as printed, is read 3 sqrt(exp(x e^-x)) sin x + cos^2 3x.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy import cos, exp, sin, sqrt
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.functions.harmonic import SquareSeries, modes_needed, sine_coefficients
from fieldcraft.physics.functions.interpolation import lagrange
from fieldcraft.physics.operators import LinearEquation, laplace
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

if TYPE_CHECKING:
    import xarray as xr


Array = NDArray[np.float64]

_SIDE = 2 * np.pi
# The series has at most 4,096 terms: exact to rounding from here inwards.
_NEAREST = 0.02
# Standard deviation of T over the plate, in K.
_SD = {1: 153.13, 2: 68.09, 3: 60.12}
# Points on each side of the search box among which an extremum is looked for.
_SCAN = 512
# Points among which it is then looked for between the neighbours of the best, until those are so close, in m.
_FINER, _CLOSE = 9, 1e-10

_Edges = dict[str, Callable[[Array], Array]]

_SETS: dict[int, _Edges] = {
    1: {
        "x-": lambda y: 5 * sin(y) + sqrt(1 + y),
        "x+": lambda y: y * sin(3 * cos(y) + 2 * exp(y) * sin(y)),
        "y-": lambda x: 10 * cos(x) + x * exp(sqrt(x**2 + sin(x))),
        "y+": lambda x: 3 * sqrt(exp(x * exp(-x))) * sin(x) + cos(3 * x) ** 2,
    },
    2: {
        "x-": lambda y: sqrt(2 * y) * sin(y) + y**3 * cos(2 * y) + exp(cos(y)),
        "x+": lambda y: sin(y) * cos(2 * y) + y**3 * sqrt(2 * y) + exp(sin(y)),
        "y-": lambda x: sin(x) * cos(2 * x) + x**2 * sqrt(3 * x) + exp(sin(x)),
        "y+": lambda x: exp(sin(x)) * sqrt(3 * x) + x**2 * cos(x) * sin(x) ** 2 + exp(cos(x)),
    },
    3: {
        "x-": lambda y: (sqrt(2 * y) + sin(y)) * (cos(2 * y) + y**3) + exp(cos(y)),
        "x+": lambda y: (sin(y) + cos(2 * y)) * (sqrt(2 * y) + y**3) + exp(sin(y)),
        "y-": lambda x: (sin(x) + cos(2 * x)) * sqrt(3 * x) + x**2 + exp(sin(x)),
        "y+": lambda x: (exp(sin(x)) + sqrt(3 * x)) * cos(x) + (sin(x) ** 2 + x**2) * exp(cos(x)),
    },
}


@lru_cache(maxsize=8)
def _series(boundary: int, modes: int) -> SquareSeries:
    return SquareSeries(_SIDE, sine_coefficients(tuple(_SETS[boundary].values()), _SIDE, modes))


@dataclass(frozen=True)
class Heat(Problem):
    """The temperature of a square plate in steady state: T_xx + T_yy = 0 on [0, 2 pi]^2, read at a place (x, y).

    By the maximum principle the hottest and the coldest point lie on the boundary, at corners where its values jump;
    so the search keeps a margin, and its extrema lie on the border of the search box.

    Args:
        boundary: Which of the three sets of boundary temperatures.
        margin: Least distance of the search from the boundary, in m; from 0.02 to 3.

    Raises:
        ValueError: another set, or a margin out of bounds.
    """

    boundary: Literal[1, 2, 3] = 2
    margin: float = 0.1

    def __post_init__(self) -> None:
        if self.boundary not in _SETS:
            raise ValueError(f"The heat problem has no boundary set {self.boundary!r}: choose 1, 2 or 3.")
        if not _NEAREST <= self.margin <= 3:
            raise ValueError(f"The heat problem's margin is {self.margin!r} m: choose one from {_NEAREST} to 3.")

    @property
    def space(self) -> SearchSpace:
        """x and y, in m, a margin away from the boundary."""
        low, high = self.margin, _SIDE - self.margin
        return SearchSpace((Continuous("x", low, high, "m"), Continuous("y", low, high, "m")))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The temperature at the design, in K."""
        return (Output("temperature", "K"),)

    @property
    def domain(self) -> Domain:
        """The plate."""
        return Domain((Axis("x", 0.0, _SIDE, "m"), Axis("y", 0.0, _SIDE, "m")))

    @property
    def equation(self) -> LinearEquation:
        """Laplace's equation."""
        return laplace(2)

    @property
    def sd(self) -> float:
        """Standard deviation of the temperature over the plate, in K."""
        return _SD[self.boundary]

    @property
    def edges(self) -> Mapping[str, Callable[[Array], Array]]:
        """Temperature in K by y on the edges x = 0 ("x-") and 2 pi ("x+"), by x on y = 0 ("y-") and 2 pi ("y+")."""
        return _SETS[self.boundary]

    def exact(self, points: Array) -> Array:
        """Temperature in K at the points (n, 2) in m, to about 1e-12 of its largest value; shape (n,).

        Raises:
            ValueError: a point outside the plate, or nearer than 0.02 m to its edge, where the series is too slow.
        """
        points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        distance = float(np.min(np.minimum(points, _SIDE - points), initial=self.margin))
        # A little slack, so that a point on the border of the search box passes.
        if not distance >= _NEAREST * (1 - 1e-9):
            raise ValueError(
                f"A point lies {distance:g} m from the plate's edge: the exact temperature is known from {_NEAREST} m "
                "inwards; ask for points there."
            )
        return _series(self.boundary, modes_needed(_SIDE, max(distance, _NEAREST)))(points)

    def optimum(self, sense: Sense) -> Optimum:
        """The hottest or coldest place of the search box: on its border (maximum principle), by a scan and a polish."""
        return _optimum(self, sense)

    def evaluate(self, design: Design, fields: "xr.Dataset") -> dict[str, float]:
        """The temperature at the design, by cubic interpolation in the field ``temperature`` (x, y); a scalar as it is.

        Raises:
            ValueError: no such field, a field with other dimensions, or a design beyond the outermost cell centres.
        """
        if "temperature" in fields and fields["temperature"].ndim == 0:
            return super().evaluate(design, fields)
        if "temperature" not in fields or set(fields["temperature"].dims) != {"x", "y"}:
            raise ValueError(
                "The simulation gave no field 'temperature' with the dimensions x and y: use the simulator heat."
            )
        field = fields["temperature"].transpose("x", "y")
        (rows, weight_x), (columns, weight_y) = (
            lagrange(name, np.asarray(field[name], dtype=np.float64), float(design[name]), "m") for name in ("x", "y")
        )
        return {"temperature": float(weight_x @ np.asarray(field[rows, columns], dtype=np.float64) @ weight_y)}


@lru_cache(maxsize=32)
def _optimum(problem: Heat, sense: Sense) -> Optimum:
    low, high = problem.margin, _SIDE - problem.margin
    sign = -1.0 if sense == "maximize" else 1.0
    best = Optimum({}, sign * np.inf)
    for fixed in (low, high):
        for axis in (0, 1):
            # Points of one side of the box: `axis` is fixed, the other coordinate runs.
            def side(s: Array, fixed: float = fixed, axis: int = axis) -> Array:
                place = np.full((len(s), 2), fixed)
                place[:, 1 - axis] = s
                return place

            def signed(s: Array, side: Callable[[Array], Array] = side) -> Array:
                return sign * problem.exact(side(s))

            found, value = _least(signed, np.linspace(low, high, _SCAN))
            if value < sign * best.value:
                x, y = side(np.array([found]))[0]
                best = Optimum({"x": float(x), "y": float(y)}, sign * value)
    return best


def _least(function: Callable[[Array], Array], places: Array) -> tuple[float, float]:
    """Place of the least value, to ``_CLOSE``, and the value: among the places, then ever finer beside the best one."""
    while True:
        values = function(places)
        at = int(np.argmin(values))
        before, after = places[max(at - 1, 0)], places[min(at + 1, len(places) - 1)]
        if after - before < _CLOSE:
            return float(places[at]), float(values[at])
        places = np.linspace(before, after, _FINER)
