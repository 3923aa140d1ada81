"""Levy's function: a wavy valley."""

import math
from dataclasses import dataclass

from fieldcraft.physics.formulas import Sum, sine
from fieldcraft.physics.operators import Values
from fieldcraft.physics.problem import Optimum, Sense


@dataclass(frozen=True)
class Levy(Sum):
    """Levy's function on [-10, 10]^d (Levy and Montalvo, 1985), with w_i = 1 + (x_i - 1) / 4:

    f = sin^2 pi w_1 + sum_{i<d} (w_i - 1)^2 (1 + 10 sin^2(pi w_i + 1)) + (w_d - 1)^2 (1 + sin^2 2 pi w_d).

    The minimum is 0, where every x_i is 1.

    Args:
        dimension: Number d of variables, at least 1.
    """

    dimension: int = 10

    interval = (-10.0, 10.0)

    def term(self, i: int, x: Values) -> Values:
        """Part of f that depends on x_i: one of the sum's parts, and sin^2 pi w for i = 1."""
        w = 1 + (x - 1) / 4
        ripple = sine(2 * math.pi * w) ** 2 if i == self.dimension else 10 * sine(math.pi * w + 1) ** 2
        first = sine(math.pi * w) ** 2 if i == 1 else 0.0
        return first + (w - 1) ** 2 * (1 + ripple)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The minimum; None for the maximum."""
        return self.everywhere(0.0, at=1.0) if sense == "minimize" else None
