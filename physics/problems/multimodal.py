"""A sum of two sines: one variable, six minima of different depth."""

from dataclasses import dataclass

from fieldcraft.physics.formulas import Sum, sine
from fieldcraft.physics.operators import Values
from fieldcraft.physics.problem import Optimum, Sense


@dataclass(frozen=True)
class Multimodal(Sum):
    """f = sin x + sin(10 x / 3) on [-2.7, 7.5] (Hansen, Jaumard and Lu, 1992)."""

    dimension = 1
    interval = (-2.7, 7.5)

    def term(self, i: int, x: Values) -> Values:
        """f itself: there is one variable."""
        return sine(x) + sine(10 * x / 3)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The deepest minimum; None for the maximum."""
        return self.everywhere(-1.8995993491521133, at=5.145735290256128) if sense == "minimize" else None
