"""Michalewicz's function: narrow valleys in a plain, different in every variable."""

import math
from dataclasses import dataclass

from fieldcraft.physics.formulas import SmoothSum, cosine, sine
from fieldcraft.physics.operators import Values


@dataclass(frozen=True)
class Michalewicz(SmoothSum):
    """f = -sum_i sin x_i (sin(i x_i^2 / pi))^2m on [0, pi]^d with m = 10 (Michalewicz, 1992).

    Known of it: sum_i (1/i) df/dx_i = sum_i (1/i) f_i'(x_i), which is computed from f itself. The thesis's form of it
    (PINN-BO, 5.4.2) divides by df/dx_i and has poles.

    Args:
        oracle: State that equation.
        dimension: Number d of variables, at least 1.
    """

    dimension: int = 10

    interval = (0.0, math.pi)

    def term(self, i: int, x: Values) -> Values:
        """-sin x (sin(i x^2 / pi))^20."""
        return -sine(x) * sine(i * x**2 / math.pi) ** 20

    def slope(self, i: int, x: Values) -> Values:
        """The derivative of the term."""
        inner = i * x**2 / math.pi
        ridge = sine(inner) ** 19
        return -ridge * (cosine(x) * sine(inner) + 40 * i * x / math.pi * sine(x) * cosine(inner))

    def weight(self, i: int) -> float:
        """1 / i."""
        return 1.0 / i
