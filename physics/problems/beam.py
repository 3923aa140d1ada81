"""A beam of wildly varying stiffness under a load: where it hangs lowest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import cosine, exponential, sine
from fieldcraft.physics.functions.interpolation import lagrange
from fieldcraft.physics.operators import LinearEquation, LinearSystem, Values
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

if TYPE_CHECKING:
    import xarray as xr


Array = NDArray[np.float64]

# Typical moment: it runs from 1 to e.
_MOMENT = 2.0


@dataclass(frozen=True)
class Beam(Problem):
    """The deflection w of a beam, (EI w'')'' = q on [0, 1], read at a place x (PINN-BO, thesis 5.4.3.2).

    The thesis prints EI = e^x / rho(x) alone. We take w = e^2x sin 20x + sin(4 pi e^2x) + 0.4 x^3 + 0.2 x^2 + 6, of
    which rho is exactly the second derivative, so that the moment EI w'' is e^x and the load q is e^x too. rho changes
    its sign 26 times and EI has poles there, so that only the mixed form is well posed: M'' = q, w'' = rho e^-x M.

    Everything is a pure number. The minimum is 0.05760366 at x = 0.88369713.

    Args:
        oracle: State the mixed form as the known physics. It is true, but rho was computed from w itself.
    """

    oracle: bool = False

    @property
    def space(self) -> SearchSpace:
        """The place x."""
        return SearchSpace((Continuous("x", 0.0, 1.0),))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The deflection at x."""
        return (Output("deflection"),)

    @property
    def domain(self) -> Domain:
        """The beam."""
        return Domain((Axis("x", 0.0, 1.0),))

    @property
    def equation(self) -> LinearSystem | None:
        """w'' - rho e^-x M = 0 and M'' = q, where they are asked for; the auxiliary field is the moment M."""
        if not self.oracle:
            return None
        bend = LinearEquation(0.0, (0.0,), ((1.0,),))
        moment = LinearEquation(_compliance, (0.0,), ((0.0,),))
        load = LinearEquation(0.0, (0.0,), ((1.0,),), right=_load)
        return LinearSystem(blocks=((bend, moment), (None, load)), sizes=(_MOMENT,))

    @property
    def sd(self) -> float:
        """Standard deviation of the deflection over the beam."""
        return 2.594

    @property
    def ends(self) -> Mapping[str, tuple[float, float]]:
        """Deflection w and moment M at x = 0 and x = 1."""
        left, right = self.exact(np.array([[0.0], [1.0]]))
        return {"deflection": (float(left), float(right)), "moment": (1.0, math.e)}

    def load(self, x: Array) -> Array:
        """q at the places (n,), shape (n,)."""
        return np.exp(x)

    def compliance(self, x: Array) -> Array:
        """1 / EI = rho e^-x at the places (n,), shape (n,)."""
        return np.asarray(_curvature(x) * np.exp(-x))

    def exact(self, points: Array) -> Array:
        """w at the points (n, 1), shape (n,)."""
        x = np.asarray(points, dtype=np.float64)[:, 0]
        fast = np.exp(2 * x)
        return np.asarray(fast * np.sin(20 * x) + np.sin(4 * math.pi * fast) + 0.4 * x**3 + 0.2 * x**2 + 6)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The lowest place, from a scan and Newton's method; None for the highest."""
        if sense == "maximize":
            return None
        place = 0.8836971299243
        return Optimum({"x": place}, float(self.exact(np.array([[place]]))[0]))

    def evaluate(self, design: Design, fields: "xr.Dataset") -> dict[str, float]:
        """The deflection at the design, by cubic interpolation in the field ``deflection`` (x); a scalar as it is.

        Raises:
            ValueError: no such field, a field with other dimensions, or a design beyond its nodes.
        """
        if "deflection" not in fields or fields["deflection"].ndim == 0:
            return super().evaluate(design, fields)
        field = fields["deflection"]
        if field.dims != ("x",):
            raise ValueError(
                f"The field 'deflection' has the dimensions {field.dims}, not x alone: use the simulator beam."
            )
        near, weights = lagrange("x", np.asarray(field["x"], dtype=np.float64), float(design["x"]))
        return {"deflection": float(weights @ np.asarray(field[near], dtype=np.float64))}


def _curvature(x: Values) -> Values:
    """rho = w''."""
    fast = exponential(2 * x)
    phase = 4 * math.pi * fast
    waves = fast * (80 * cosine(20 * x) - 396 * sine(20 * x))
    return waves + 4 * phase * (cosine(phase) - phase * sine(phase)) + 2.4 * x + 0.4


def _compliance(points: Values) -> Values:
    """Minus rho e^-x, the coefficient of M in the first equation."""
    x = points[:, 0]
    return -_curvature(x) * exponential(-x)


def _load(points: Values) -> Values:
    return exponential(points[:, 0])
