"""Blending yarn of three polymers (Cornell, 1990): a mixture, whose shares add up to one."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, LinearEquality, SearchSpace

Array = NDArray[np.float64]

_NAMES = ("polyethylene", "polystyrene", "polypropylene")


@dataclass(frozen=True)
class Yarn(Problem):
    """Elongation 11.7 x1 + 9.4 x2 + 16.4 x3 + 19 x1 x2 + 11.4 x1 x3 - 9.6 x2 x3 of a blend x1 + x2 + x3 = 1.

    Scheffe's quadratic model of Cornell's measurements (NIST/SEMATECH e-Handbook of Statistical Methods, 5.5.4.2). The
    largest value, 16.4 + 6.7^2 / 45.6, is that of a blend without polystyrene with x1 = 6.7 / 22.8; the least, 9.4 -
    2.6^2 / 38.4, of one without polyethylene with x3 = 2.6 / 19.2.
    """

    @property
    def space(self) -> SearchSpace:
        """Shares of the three polymers, pure numbers."""
        return SearchSpace(
            tuple(Continuous(name, 0.0, 1.0) for name in _NAMES), (LinearEquality(dict.fromkeys(_NAMES, 1.0), 1.0),)
        )

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Elongation under a load, in kilograms of force."""
        return (Output("elongation", "kgf"),)

    @property
    def sd(self) -> float:
        """Standard deviation over the blends, in kgf."""
        return 1.795

    def optimum(self, sense: Sense) -> Optimum:
        """The best blend of two polymers, at which a third one would only do harm."""
        if sense == "maximize":
            place, value = (6.7 / 22.8, 0.0, 16.1 / 22.8), 16.4 + 6.7**2 / 45.6
        else:
            place, value = (0.0, 16.6 / 19.2, 2.6 / 19.2), 9.4 - 2.6**2 / 38.4
        return Optimum(dict(zip(_NAMES, place, strict=True)), value)

    def exact(self, points: Array) -> Array:
        """Elongation of the blends (n, 3), in kgf, shape (n,)."""
        x1, x2, x3 = np.asarray(points, dtype=np.float64).T
        return np.asarray(11.7 * x1 + 9.4 * x2 + 16.4 * x3 + 19.0 * x1 * x2 + 11.4 * x1 * x3 - 9.6 * x2 * x3)

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        return {"elongation": float(self.exact(np.array([[float(design[name]) for name in _NAMES]]))[0])}
