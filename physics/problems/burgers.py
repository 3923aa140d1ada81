"""A viscous flow that pulses at its inlet: where and when it is fastest."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.formulas import cosine, exponential, sine
from fieldcraft.physics.operators import Equation, Jet, Values
from fieldcraft.physics.parametric.statement import Condition
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]

_VISCOSITY, _SHARE, _DECAY = 0.1, 0.7, 2.0  # nu, b, s
_PULSE = 2 * _VISCOSITY * _DECAY**2
_PERIOD = 2 * math.pi / _PULSE


class _ViscousBurgers:
    """u_t + u u_x - nu u_xx = 0 over (x, t) (Burgers, 1948)."""

    linear = False

    def operator(self, points: Values, jet: Jet) -> Values:
        """u_t + u u_x - nu u_xx, shape (n,)."""
        return jet.gradient[:, 1] + jet.value * jet.gradient[:, 0] - _VISCOSITY * jet.hessian[:, 0, 0]

    def source(self, points: Values) -> Values:
        """0, shape (n,)."""
        return 0.0 * points[:, 0]


@dataclass(frozen=True)
class Burgers(Problem):
    """The velocity u of a viscous flow, u_t + u u_x = nu u_xx with nu = 0.1, at a place x in [0, 1] and a time t.

    u = -2 nu p_x / p (Cole, 1951; Hopf, 1950), where p = 1 + b exp(-s x) sin(w t - s x) diffuses, p_t = nu p_xx, with
    b = 0.7, s = 2 and w = 2 nu s^2, over one period. The velocities at t = 0 are known, the inlet x = 0, which drives
    the flow, and the outlet are not. At the inlet u = 2 nu b s (sin z + cos z) / (1 + b sin z) with z = w t, which is
    extreme where cos z - sin z = b. Everything is a pure number.
    """

    @property
    def space(self) -> SearchSpace:
        """Place x and time t."""
        return SearchSpace((Continuous("x", 0.0, 1.0), Continuous("t", 0.0, _PERIOD)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The velocity there and then."""
        return (Output("velocity"),)

    @property
    def domain(self) -> Domain:
        """The channel over one period."""
        return Domain((Axis("x", 0.0, 1.0), Axis("t", 0.0, _PERIOD)))

    @property
    def equation(self) -> Equation:
        """The viscous Burgers equation, which is not linear."""
        return _ViscousBurgers()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The velocities at t = 0."""
        return (Condition("velocity", "t", "low", _velocity),)

    @property
    def sd(self) -> float:
        """Standard deviation of the velocity over the channel and the period."""
        return 0.17532

    def exact(self, points: Array) -> Array:
        """u at the points (n, 2), shape (n,)."""
        return np.asarray(_velocity(np.asarray(points, dtype=np.float64)))

    def optimum(self, sense: Sense) -> Optimum:
        """The inlet at the phase z with cos z - sin z = b where u has this sign."""
        turn = math.acos(_SHARE / math.sqrt(2))
        phase = turn - math.pi / 4 if sense == "maximize" else 7 * math.pi / 4 - turn
        place = {"x": 0.0, "t": phase / _PULSE}
        return Optimum(place, float(self.exact(np.array([list(place.values())]))[0]))


def _velocity(points: Values) -> Values:
    depth = _DECAY * points[:, 0]
    wave, phase = _SHARE * exponential(-depth), _PULSE * points[:, 1] - depth
    return 2 * _VISCOSITY * _DECAY * wave * (sine(phase) + cosine(phase)) / (1 + wave * sine(phase))
