"""The bumpy function: one variable, 22 minima, three of them equally low."""

from dataclasses import dataclass

from fieldcraft.physics.formulas import Sum, sine
from fieldcraft.physics.operators import Values
from fieldcraft.physics.problem import Optimum, Sense


@dataclass(frozen=True)
class Bumpy(Sum):
    """f = -sum_{i=1}^{6} i sin((i + 1) x + i) on [-10, 10] (Shubert, 1972)."""

    dimension = 1
    interval = (-10.0, 10.0)

    def term(self, i: int, x: Values) -> Values:
        """f itself: there is one variable."""
        return -sum(k * sine((k + 1) * x + k) for k in range(1, 7))

    def optimum(self, sense: Sense) -> Optimum | None:
        """One of the three minima; None for the maximum."""
        return self.everywhere(-16.532194721073317, at=-0.5580997846287081) if sense == "minimize" else None
