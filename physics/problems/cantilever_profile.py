"""A cantilever of given weight: how deep to make it along its length so that it gives way least."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, LinearSystem, Values
from fieldcraft.physics.parametric.discrete import DiscreteSystem, Majorant
from fieldcraft.physics.parametric.statement import Condition, Field, Numbers, ParametricEquation
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, LinearEquality, SearchSpace

Array = NDArray[np.float64]

_KNOTS = ("d1", "d2", "d3", "d4", "d5")
_LENGTH, _WIDTH = 1.0, 0.05  # m
_MODULUS, _LOAD = 70e9, 500.0  # Pa, N/m
_MEAN, _LEAST, _MOST = 20.0, 4.0, 60.0  # depths, in mm
# Share of each knot in the mean depth: half as much at the ends.
_SHARES = (0.125, 0.25, 0.25, 0.25, 0.125)
# Gauss points on each of the four pieces: right to rounding, for the integrand is smooth on a piece.
_POINTS = 40
_BEST = (39.43527504, 29.39012817, 20.08213164, 8.81010267, 4.0)


@dataclass(frozen=True)
class CantileverProfile(Problem):
    """The compliance of a cantilever under a uniform load, as a function of its depth along its length.

    A bar of length L = 1 m and width b = 50 mm, of E = 70 GPa, is clamped at x = 0 and free at x = L. Its load is
    q = 500 N/m. Its depth is linear between five knots, with a mean of 20 mm. With the moment M and the deflection w,

        M'' = q,   M(L) = M'(L) = 0,   w'' = M / (E I),   w(0) = w'(0) = 0,   I = b depth^3 / 12,

    and the compliance is the work of the load, the integral of q w. A bar of one depth has 5.357143 J.
    """

    @property
    def space(self) -> SearchSpace:
        """Depths d1 (at the clamp) to d5 (at the free end), equally far apart, 4 mm or more, of mean 20 mm."""
        mean = LinearEquality(dict(zip(_KNOTS, _SHARES, strict=True)), _MEAN)
        return SearchSpace(tuple(Continuous(name, _LEAST, _MOST, "mm") for name in _KNOTS), (mean,))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The compliance."""
        return (Output("compliance", "J"),)

    @property
    def sd(self) -> float:
        """Standard deviation of the compliance, in J: that of 20,000 uniform designs, whose median is 11.3 J."""
        return 35.0

    @property
    def parametric(self) -> ParametricEquation:
        """w'' - M / (E I) = 0 and M'' = q over x in m; the coarse grid has ten cells."""
        conditions = (
            Condition("deflection", "x", "low"),
            Condition("deflection", "x", "low", value=0.0, slope=1.0),
            Condition("moment", "x", "high"),
            Condition("moment", "x", "high", value=0.0, slope=1.0),
        )
        return ParametricEquation(
            domain=Domain((Axis("x", 0.0, _LENGTH, "m"),)),
            fields=(Field("deflection", "m"), Field("moment", "N m")),
            equation=_equation,
            conditions=conditions,
            cells=(10,),
        )

    def functional(self, fields: Mapping[str, Array], axes: Mapping[str, Array], designs: Numbers) -> Array:
        """The work of the load on each design's ``deflection``, in J, shape (n, 1)."""
        return np.asarray(_LOAD * _LENGTH * fields["deflection"].mean(axis=1, keepdims=True))

    def discrete(self, designs: Numbers, cells: tuple[int, ...]) -> DiscreteSystem:
        """h D^T diag(E I) D w = h q, the central differences of both equations without the moment.

        D has the curvatures of the deflection at all cells but the last, whose moment is 0; the deflection of the first
        is 0. The moment's differences are D^T. E I of a cell is the harmonic mean of those at its two Gauss points;
        their arithmetic mean is nowhere below it, and convex as the cube of a depth that is linear in the knots.
        """
        from scipy.sparse import diags

        (n,) = cells
        h = _LENGTH / n
        ones = np.ones(n - 1)
        curvatures = diags([ones, -2 * ones[1:], ones[2:]], [0, -1, -2]) / h**2
        centres, move = h * (np.arange(n - 1) + 0.5), h / (2 * np.sqrt(3))
        both = [np.asarray(_stiffness(designs, centres + side)) for side in (-move, move)]
        return DiscreteSystem(
            strains=(np.sqrt(h) * curvatures).tocsr(),
            stiffness=2 / (1 / both[0] + 1 / both[1]),
            loads=np.full((1, n - 1), h * _LOAD),
            field="deflection",
            free=np.arange(1, n),
            compliance=True,
            above=Majorant((_shapes(centres - move) + _shapes(centres + move)) / 2, _products),
        )

    def exact(self, points: Array) -> Array:
        """The compliance without mesh, in J, of the designs (n, 5) in mm, shape (n,): the integral of M^2 / (E I)."""
        nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
        pieces = np.linspace(0.0, _LENGTH, len(_KNOTS))
        half = np.diff(pieces) / 2
        x = ((pieces[1:] + pieces[:-1]) / 2)[:, None] + half[:, None] * nodes
        depths = np.asarray(points, dtype=np.float64).reshape(-1, len(_KNOTS)).T[:, :, None]
        moment = _LOAD * (_LENGTH - x.ravel()) ** 2 / 2
        stiffness = _stiffness(dict(zip(_KNOTS, depths, strict=True)), x.ravel())
        return np.asarray((moment**2 / stiffness) @ (half[:, None] * weights).ravel())

    def optimum(self, sense: Sense) -> Optimum | None:
        """The stiffest bar known, from multistart SLSQP, which nothing certifies; None for the most compliant."""
        if sense == "maximize":
            return None
        return Optimum(dict(zip(_KNOTS, _BEST, strict=True)), float(self.exact(np.array([_BEST]))[0]))


def _stiffness(design: Numbers, x: Values) -> Values:
    """E I in N m^2 at places x (p,) in m."""
    step = _LENGTH / (len(_KNOTS) - 1)
    depth = sum(design[name] * _hat(x / step - knot) for knot, name in enumerate(_KNOTS))
    return _MODULUS * _WIDTH / 12 * (1e-3 * depth) ** 3


def _shapes(x: Array) -> Array:
    """E I at places x (p,) in m for each unit of ``_products``, in N m^2 / mm^3, shape (16, p)."""
    place = x / _LENGTH * (len(_KNOTS) - 1)
    piece = np.minimum(place.astype(int), len(_KNOTS) - 2)
    share = place - piece
    rows = [
        many * (1 - share) ** (3 - power) * share**power * (piece == number)
        for number in range(len(_KNOTS) - 1)
        for power, many in enumerate((1, 3, 3, 1))
    ]
    return np.asarray(_MODULUS * _WIDTH / 12 * 1e-9 * np.array(rows))


def _products(designs: Numbers) -> Array:
    """Products a^3, a^2 b, a b^2, b^3 of the depths a, b at the ends of each of the four pieces, in mm^3, (n, 16)."""
    depths = [np.asarray(designs[name], dtype=np.float64).reshape(-1) for name in _KNOTS]
    return np.stack([a ** (3 - power) * b**power for a, b in pairwise(depths) for power in range(4)], axis=1)


def _hat(s: Values) -> Values:
    """1 - |s|, and 0 where that is negative."""
    return (1 - abs(s)).clip(0)


def _equation(design: Numbers) -> LinearSystem:
    bend = LinearEquation(0.0, (0.0,), ((1.0,),))
    moment = LinearEquation(lambda points: -1 / _stiffness(design, points[:, 0]), (0.0,), ((0.0,),))
    load = LinearEquation(0.0, (0.0,), ((1.0,),), right=_LOAD)
    return LinearSystem(blocks=((bend, moment), (None, load)), sizes=(_LOAD * _LENGTH**2 / 2,))
