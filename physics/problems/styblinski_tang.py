"""The Styblinski-Tang function: one of two wells in every variable."""

from dataclasses import dataclass

from fieldcraft.physics.formulas import SmoothSum
from fieldcraft.physics.operators import Values


@dataclass(frozen=True)
class StyblinskiTang(SmoothSum):
    """f = 1/2 sum_i (x_i^4 - 16 x_i^2 + 5 x_i) on [-5, 5]^d (Styblinski and Tang, 1990).

    The minimum is -39.1661657 d, where every x_i is -2.90353402777. Known of it: sum_i df/dx_i = sum_i (2 x_i^3 -
    16 x_i + 5/2), which is computed from f itself.

    Args:
        oracle: State that equation.
        dimension: Number d of variables, at least 1.
    """

    dimension: int = 10

    interval = (-5.0, 5.0)

    def term(self, i: int, x: Values) -> Values:
        """(x^4 - 16 x^2 + 5 x) / 2."""
        return (x**4 - 16 * x**2 + 5 * x) / 2

    def slope(self, i: int, x: Values) -> Values:
        """2 x^3 - 16 x + 5/2."""
        return 2 * x**3 - 16 * x + 2.5
