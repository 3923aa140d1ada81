"""Two chips on a cooled plate: where to put them so that the hottest place is as cool as can be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import exponential
from fieldcraft.physics.functions.cosines import CosineSeries, cosine_coefficients, frequencies
from fieldcraft.physics.operators import LinearEquation, Values
from fieldcraft.physics.parametric.statement import Field, Numbers, ParametricEquation, UncertainCoefficient, no_flux
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]

# Sides of the plate and least distance of a centre from the rim, in mm.
_SIDES = (120.0, 80.0)
_MARGIN = 15.0
# Standard deviation of a chip's Gaussian, in mm.
_SPREAD = 6.0
# Standard deviation, in mm, up to which the heat near a chip is told apart, and nodes of that integral.
_WIDE, _NODES = 20.0, 6
# Power of each chip, in W.
_POWERS = (20.0, 12.0)
# Terms of the series along x and y: right to 1e-6 K.
_MODES = (240, 160)
# Centres in mm; the three mirror images are as good.
_BEST = {"x1": 45.26745, "y1": 42.45016, "x2": 105.0, "y2": 21.96113}


@dataclass(frozen=True)
class Chips(Problem):
    """The hottest place of a plate that carries two chips and is cooled over its whole face.

    A plate of 120 x 80 x 2 mm with conductivity k = 200 W/(m K) and thickness t loses heat to air at T_a = 25 degC with
    h = 50 W/(m^2 K); its rim is insulated. Chips of 20 W and 12 W heat it as Gaussians of 6 mm. In steady state

        k t (T_xx + T_yy) - h (T - T_a) + q = 0,   no flux across the rim.

    The part of a Gaussian that would fall beyond the rim is spread over the plate in the Gaussian's own shape: each
    chip's whole power enters the plate, wherever it is, so that the heat lost is 32 W for every design.
    """

    @property
    def space(self) -> SearchSpace:
        """The centres (x1, y1) of the 20 W chip and (x2, y2) of the 12 W chip, in mm, 15 mm or more from the rim."""
        ranges = {axis: (_MARGIN, side - _MARGIN) for axis, side in zip("xy", _SIDES, strict=True)}
        return SearchSpace(tuple(Continuous(name, *ranges[name[0]], "mm") for name in _BEST))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The largest temperature of the plate."""
        return (Output("max_temperature", "degC"),)

    @property
    def sd(self) -> float:
        """Standard deviation of the largest temperature, in K: that of 20,000 uniform designs on 96 x 64 cells."""
        return 4.8

    @property
    def sides(self) -> tuple[float, float]:
        """Sides of the plate along x and y, in mm."""
        return _SIDES

    @property
    def conductance(self) -> float:
        """k t, in W/K."""
        return 200.0 * 0.002

    @property
    def exchange(self) -> float:
        """h, in W/(m^2 K)."""
        return 50.0

    @property
    def ambient(self) -> float:
        """T_a, in degC."""
        return 25.0

    @property
    def parametric(self) -> ParametricEquation:
        """The plate's equation in W/m^2, over x and y in mm; a coarse grid has cells of 5 mm, a chip's spread is 6."""
        domain = Domain(tuple(Axis(axis, 0.0, side, "mm") for axis, side in zip("xy", _SIDES, strict=True)))
        return ParametricEquation(
            domain=domain,
            fields=(Field("temperature", "degC"),),
            equation=self._equation,
            conditions=no_flux("temperature", domain),
            cells=(24, 16),
            coefficients=(
                UncertainCoefficient("exchange", 5.0, 200.0, "W/(m^2 K)", value=self.exchange),
                UncertainCoefficient("conductance", 0.05, 2.0, "W/K", value=self.conductance),
            ),
            singular=self._near_chips,
        )

    def _equation(self, design: Numbers) -> LinearEquation:
        """h T - k t (T_xx + T_yy) = q + h T_a, with derivatives by mm."""
        exchange, conduction = design["exchange"], -1e6 * design["conductance"]

        def source(points: Values) -> Values:
            return exchange * self.ambient + sum(
                power
                * _density(points[:, 0], design[f"x{i}"], _SIDES[0])
                * _density(points[:, 1], design[f"y{i}"], _SIDES[1])
                for i, power in enumerate(_POWERS, start=1)
            )

        return LinearEquation(exchange, (0.0, 0.0), ((conduction, 0.0), (0.0, conduction)), source)

    def _near_chips(self, design: Numbers, points: Values) -> dict[str, Values]:
        """T near the chips in K: what is left of the equation without it has sources as wide as ``_WIDE``.

        With K = k t, the solution for a Gaussian source of variance s^2 is the integral over v from s^2 on of
        exp(-h (v - s^2) / 2K) / 2K times the Gaussian of variance v (the heat kernel). This is the integral up to
        ``_WIDE`` squared, by Gauss and Legendre's rule in log v, with mirror images so that no flux crosses the rim.
        """
        exchange, conduction = design["exchange"], 1e6 * design["conductance"]
        first, last = 2 * math.log(_SPREAD), 2 * math.log(_WIDE)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        rise: Values = 0.0 * points[:, 0]
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            variance = math.exp((first + last) / 2 + (last - first) / 2 * node)
            share = (last - first) / 2 * weight * variance / (2 * conduction)
            share = share * math.exp(-exchange * (variance - _SPREAD**2) / (2 * conduction))
            for number, power in enumerate(_POWERS, start=1):
                along = [
                    _mirrored(points[:, axis], design[f"{name}{number}"], side, variance)
                    for axis, (name, side) in enumerate(zip("xy", _SIDES, strict=True))
                ]
                rise = rise + power * share * along[0] * along[1]
        return {"temperature": rise}

    def functional(self, fields: Mapping[str, Array], axes: Mapping[str, Array], designs: Numbers) -> Array:
        """The temperature of the hottest cell of each design, in degC, shape (n, 1)."""
        temperature = fields["temperature"]
        return np.asarray(temperature.reshape(len(temperature), -1).max(axis=1, keepdims=True))

    def heating(self, design: Design, x: Array, y: Array) -> Array:
        """q in W/m^2 at the centres x (n,) and y (m,), in mm, of equal cells that cover the plate; shape (n, m).

        Its sum times the area of a cell is the chips' power, to rounding.

        Raises:
            ValueError: a chip's centre that does not lie on the plate.
        """
        cell = _SIDES[0] / len(x) * _SIDES[1] / len(y) * 1e-6
        heat = np.zeros((len(x), len(y)))
        for power, centre in zip(_POWERS, _centres(design), strict=True):
            shape = np.outer(*(_bell(s, at) for s, at in zip((x, y), centre, strict=True)))
            heat += power * shape / (shape.sum() * cell)
        return heat

    def exact(self, points: Array) -> Array:
        """The largest temperature without mesh, in degC, of the designs (n, 4) in mm; to 1e-6 K, shape (n,).

        Raises:
            ValueError: a chip's centre that does not lie on the plate.
        """
        rows = np.asarray(points, dtype=np.float64).reshape(-1, len(_BEST))
        return np.array([self.temperature(dict(zip(_BEST, row, strict=True))).maximum() for row in rows])

    def temperature(self, design: Design) -> CosineSeries:
        """T in degC over (x, y) in mm, the solution of the equation by separation of variables.

        Raises:
            ValueError: a chip's centre that does not lie on the plate.
        """
        heat = np.zeros(_MODES)
        for power, centre in zip(_POWERS, _centres(design), strict=True):
            heat += power * np.outer(*map(_bell_coefficients, centre, _SIDES, _MODES))
        # 1e6 mm^2 are a square metre.
        along_x, along_y = map(frequencies, _SIDES, _MODES)
        rise = 1e6 * heat / (self.exchange + 1e6 * self.conductance * np.add.outer(along_x**2, along_y**2))
        rise[0, 0] += self.ambient
        return CosineSeries(_SIDES, rise)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The coolest arrangement known, without mesh, where both chips are equally hot; None for the hottest.

        The best of multistart SLSQP on the series (min t with the temperature under each chip <= t), which 117 of 120
        starts reached and nothing certifies. It has three mirror images. On 96 x 64 cells it reads 0.009 K more, and
        cells that happen to lie well let nearby designs read 100.770 degC.
        """
        if sense == "maximize":
            return None
        return Optimum(dict(_BEST), float(self.exact(np.array([list(_BEST.values())]))[0]))


def _centres(design: Design) -> tuple[tuple[float, float], ...]:
    """Centres of the chips in mm."""
    centres = tuple((float(design[f"x{i}"]), float(design[f"y{i}"])) for i in (1, 2))
    for number, (x, y) in enumerate(centres, start=1):
        if not (0 <= x <= _SIDES[0] and 0 <= y <= _SIDES[1]):
            raise ValueError(
                f"Chip {number} is at ({x:g}, {y:g}) mm, off the plate of {_SIDES[0]:g} x {_SIDES[1]:g} mm: place its "
                "centre on it."
            )
    return centres


def _bell(s: Array, centre: float) -> Array:
    return np.asarray(np.exp(-(((s - centre) / _SPREAD) ** 2) / 2))


def _density(s: Values, centre: Values, side: float) -> Values:
    """A Gaussian in 1/m at places s in mm, cut off at the ends of a side and scaled to the integral 1."""
    reach = _SPREAD * math.sqrt(2)
    inside = _error_function((side - centre) / reach) + _error_function(centre / reach)
    return 1e3 * 2 / (inside * _SPREAD * math.sqrt(2 * math.pi)) * exponential(-(((s - centre) / reach) ** 2))


def _mirrored(s: Values, centre: Values, side: float, variance: float) -> Values:
    """A Gaussian in 1/m at places s in mm and its mirror images beyond the ends of a side, up to the second."""
    images = (sign * centre + 2 * m * side for m in (-1, 0, 1) for sign in (1, -1))
    total = sum(exponential(-((s - image) ** 2) / (2 * variance)) for image in images)
    return 1e3 / math.sqrt(2 * math.pi * variance) * total


def _error_function(values: Values) -> Values:
    """erf of a number, a numpy array or a torch tensor."""
    if hasattr(values, "erf"):
        return values.erf()
    from scipy.special import erf

    return erf(values)


def _bell_coefficients(centre: float, side: float, modes: int) -> Array:
    """Cosine coefficients, in 1/mm, of a Gaussian cut off at the ends of a side and scaled to the integral 1."""
    found = cosine_coefficients(lambda s: _bell(s, centre), side, modes)
    return np.asarray(found / (found[0] * side))
