"""Two chips on an L-shaped bracket: where to put them so that the hottest place is as cool as can be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, Values
from fieldcraft.physics.parametric.edges import Edge
from fieldcraft.physics.parametric.statement import Field, Numbers, ParametricEquation, UncertainCoefficient, no_flux
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]

# Side of the square, and of the notch in its upper right corner, in mm.
_SIDE, _NOTCH = 120.0, 60.0
# Standard deviation of a chip's Gaussian, in mm, and power of each chip, in W.
_SPREAD, _POWERS = 6.0, (20.0, 12.0)
# Conductivity times thickness in W/K, temperature of the air and of the frame in degC, contact to the frame in W/(m K).
_CONDUCTANCE, _AMBIENT, _FRAME, _CONTACT = 200.0 * 0.002, 25.0, 80.0, 1.0
# Centres in mm, and the largest temperature there in degC on 120 x 120 cells.
_BEST, _LEAST = {"x1": 56.31, "y1": 33.68, "x2": 34.3, "y2": 101.69}, 93.1347


@dataclass(frozen=True)
class Bracket(Problem):
    """The hottest place of an L-shaped bracket that carries two chips and stands at a warm frame.

    A plate of 120 x 120 x 2 mm without its quarter x, y > 60 mm, of conductivity k = 200 W/(m K) and thickness t, loses
    heat to air at T_a = 25 degC with h = 50 W/(m^2 K) over its face. Along the side x = 60 mm of the notch it is bolted
    to a warm frame of T_f = 80 degC with g = 1 W/(m K); the rest of its rim is insulated. Chips of 20 W, in the lower
    arm, and of 12 W, in the left one, heat it as Gaussians of 6 mm. In steady state

        k t (T_xx + T_yy) - h (T - T_a) + q = 0,   k t dT/dn + g (T - T_f) = 0 at the frame,   no flux at the rest.
    """

    @property
    def space(self) -> SearchSpace:
        """The centres (x1, y1) of the 20 W chip and (x2, y2) of the 12 W chip, in mm, 15 mm or more from the rim."""
        long, short = (15.0, _SIDE - 15.0), (15.0, _NOTCH - 15.0)
        ranges = {"x1": long, "y1": short, "x2": short, "y2": long}
        return SearchSpace(tuple(Continuous(name, *ends, "mm") for name, ends in ranges.items()))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The largest temperature of the bracket."""
        return (Output("max_temperature", "degC"),)

    @property
    def parametric(self) -> ParametricEquation:
        """The equation in W/m^2, over x and y in mm; the notch's sides lie between cells of 5 mm."""
        domain = Domain(tuple(Axis(axis, 0.0, _SIDE, "mm") for axis in "xy"), _in_l)
        return ParametricEquation(
            domain=domain,
            fields=(Field("temperature", "degC"),),
            equation=self._equation,
            conditions=no_flux("temperature", domain),
            edge=(
                Edge("temperature", _CONTACT * _FRAME, value=_CONTACT, slope=1e3 * _CONDUCTANCE, part=_at_frame),
                Edge("temperature", value=0.0, slope=1.0, part=_free),
            ),
            cells=(24, 24),
            coefficients=(UncertainCoefficient("exchange", 5.0, 200.0, "W/(m^2 K)", value=50.0),),
        )

    def _equation(self, design: Numbers) -> LinearEquation:
        """h T - k t (T_xx + T_yy) = q + h T_a, with derivatives by mm."""
        exchange, conduction = design["exchange"], -1e6 * _CONDUCTANCE

        def source(points: Values) -> Values:
            heat = exchange * _AMBIENT
            for i, power in enumerate(_POWERS, start=1):
                squares = (points[:, 0] - design[f"x{i}"]) ** 2 + (points[:, 1] - design[f"y{i}"]) ** 2
                heat = heat + 1e6 * power / (2 * math.pi * _SPREAD**2) * np.exp(-squares / (2 * _SPREAD**2))
            return heat

        return LinearEquation(exchange, (0.0, 0.0), ((conduction, 0.0), (0.0, conduction)), source)

    def functional(self, fields: Mapping[str, Array], axes: Mapping[str, Array], designs: Numbers) -> Array:
        """The temperature of the hottest cell of each design, in degC, shape (n, 1)."""
        temperature = fields["temperature"]
        return np.asarray(np.nanmax(temperature.reshape(len(temperature), -1), axis=1, keepdims=True))

    def optimum(self, sense: Sense) -> Optimum | None:
        """The coolest arrangement known, on 120 x 120 cells; None for the hottest.

        The best of three searches by Nelder and Mead's method, which agree to 0.02 K and of which nothing certifies the
        result. On 240 x 240 cells it reads 0.016 K more.
        """
        return Optimum(dict(_BEST), _LEAST) if sense == "minimize" else None


def _in_l(points: Array) -> NDArray[np.bool_]:
    return np.asarray((points[:, 0] <= _NOTCH) | (points[:, 1] <= _NOTCH))


def _at_frame(points: Array) -> NDArray[np.bool_]:
    """True for each of the points (n, 2) of the notch's edge on its side x = 60 mm."""
    return np.asarray(points[:, 1] > points[:, 0])


def _free(points: Array) -> NDArray[np.bool_]:
    return ~_at_frame(points)
