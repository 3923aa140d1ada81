"""Rastrigin's function: a bowl with a lattice of equal dents."""

import math
from dataclasses import dataclass

from fieldcraft.physics.formulas import SmoothSum, cosine, sine
from fieldcraft.physics.operators import Values


@dataclass(frozen=True)
class Rastrigin(SmoothSum):
    """f = 10 d + sum_i (x_i^2 - 10 cos 2 pi x_i) on [-5.12, 5.12]^d (Rastrigin, 1974).

    The minimum is 0 at 0. Known of it: sum_i df/dx_i = sum_i (2 x_i + 20 pi sin 2 pi x_i), which is computed from f
    itself.

    Args:
        oracle: State that equation.
        dimension: Number d of variables, at least 1.
    """

    dimension: int = 20

    interval = (-5.12, 5.12)

    def term(self, i: int, x: Values) -> Values:
        """10 + x^2 - 10 cos 2 pi x."""
        return 10 + x**2 - 10 * cosine(2 * math.pi * x)

    def slope(self, i: int, x: Values) -> Values:
        """2 x + 20 pi sin 2 pi x."""
        return 2 * x + 20 * math.pi * sine(2 * math.pi * x)
