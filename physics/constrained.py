"""Problems that minimise a formula under constraints that are formulas too: pure numbers in, pure numbers out."""

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]


class ConstrainedFormula(Problem):
    """Minimise f(x1, ..., xd) where c_1, ..., c_K <= 0."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Least and greatest value of each variable."""

    @property
    @abstractmethod
    def constraints(self) -> int:
        """Number K of them."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """Standard deviation of f over the box."""

    @property
    @abstractmethod
    def best(self) -> tuple[tuple[float, ...], float]:
        """A feasible minimiser, shape (d,), and the least value."""

    @abstractmethod
    def exact(self, points: Array) -> Array:
        """f at the points (n, d), shape (n,)."""

    @abstractmethod
    def exact_constraints(self, points: Array) -> Array:
        """c at the points (n, d), shape (n, K)."""

    @property
    def space(self) -> SearchSpace:
        """x1, ..., xd within the bounds, pure numbers."""
        return SearchSpace(tuple(Continuous(f"x{i}", *ends) for i, ends in enumerate(self.bounds, start=1)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The value, then c1, ..., cK; pure numbers."""
        return (Output("value"), *(Output(f"c{k}") for k in range(1, self.constraints + 1)))

    @property
    def sd(self) -> float:
        """Standard deviation of f over the box."""
        return self.spread

    def optimum(self, sense: Sense) -> Optimum | None:
        """The least value where all constraints hold; None for the maximum."""
        if sense == "maximize":
            return None
        place, value = self.best
        return Optimum(dict(zip(self.space.names, place, strict=True)), value)

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        point = np.array([[float(design[name]) for name in self.space.names]])
        numbers = np.append(self.exact(point), self.exact_constraints(point)[0])
        return {output.name: float(number) for output, number in zip(self.outputs, numbers, strict=True)}
