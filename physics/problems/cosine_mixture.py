"""The cosine mixture: a shallow bowl with ripples."""

import math
from dataclasses import dataclass

from fieldcraft.physics.formulas import SmoothSum, cosine, sine
from fieldcraft.physics.operators import Values


@dataclass(frozen=True)
class CosineMixture(SmoothSum):
    """f = sum_i (x_i^2 + 0.1 cos 5 pi x_i) on [-1, 1]^d (Breiman and Cutler, 1993, with the sign of the thesis).

    The minimum is -0.0630122022 d, where every x_i is 0.184872823183 or its negative. Known of it: sum_i df/dx_i =
    sum_i (2 x_i - 0.5 pi sin 5 pi x_i), which is computed from f itself.

    Args:
        oracle: State that equation.
        dimension: Number d of variables, at least 1.
    """

    dimension: int = 50

    interval = (-1.0, 1.0)

    def term(self, i: int, x: Values) -> Values:
        """x^2 + 0.1 cos 5 pi x."""
        return x**2 + 0.1 * cosine(5 * math.pi * x)

    def slope(self, i: int, x: Values) -> Values:
        """2 x - 0.5 pi sin 5 pi x."""
        return 2 * x - 0.5 * math.pi * sine(5 * math.pi * x)
