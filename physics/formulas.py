"""Problems that are a formula of real variables x1, x2, ...: pure numbers in, a pure number out."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, Values
from fieldcraft.physics.problem import Optimum, Output, Problem, Sense
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]

_MOST = 1000  # variables
# Places on an interval among which the extremum of one term is looked for; their mean is right to rounding here.
_SCAN = 20_000


def sine(values: Values) -> Values:
    """sin of a numpy array or a torch tensor."""
    return values.sin() if hasattr(values, "sin") else np.sin(values)


def cosine(values: Values) -> Values:
    """cos of a numpy array or a torch tensor."""
    return values.cos() if hasattr(values, "cos") else np.cos(values)


def exponential(values: Values) -> Values:
    """exp of a numpy array or a torch tensor."""
    return values.exp() if hasattr(values, "exp") else np.exp(values)


class Formula(Problem):
    """f(x1, ..., xd) with every variable in the same interval. Give ``dimension``, ``interval`` and ``exact``.

    Raises:
        ValueError: a dimension below 1 or above 1000, as far as it can be chosen.
    """

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(
                f"The problem {type(self).__name__} has the dimension {self.dimension!r}: give at least 1 variable."
            )
        if self.dimension > _MOST:
            raise ValueError(
                f"The problem {type(self).__name__} has the dimension {self.dimension}: nothing is learnt in so many "
                f"variables; give at most {_MOST}."
            )

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number d of variables."""

    @property
    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """Least and greatest value of every variable."""

    @abstractmethod
    def exact(self, points: Array) -> Array:
        """f at the points (n, d), shape (n,)."""

    @property
    def space(self) -> SearchSpace:
        """x1, ..., xd in the interval, pure numbers."""
        return SearchSpace(tuple(Continuous(name, *self.interval) for name in self._names))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The formula's value, a pure number."""
        return (Output("value"),)

    @property
    def box(self) -> Domain:
        """The whole space, as a domain for an equation."""
        return Domain(tuple(Axis(name, *self.interval) for name in self._names))

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        return {"value": float(self.exact(np.array([[float(design[name]) for name in self._names]]))[0])}

    def everywhere(self, value: float, at: float) -> Optimum:
        """Optimum of the given value, at which each variable is ``at``."""
        return Optimum(dict.fromkeys(self._names, at), value)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(1, self.dimension + 1))


class Sum(Formula):
    """f = sum_i f_i(x_i), one term a variable. Give ``term`` too."""

    @abstractmethod
    def term(self, i: int, x: Values) -> Values:
        """f_i at values (n,) of the i-th variable, counted from 1; shape (n,)."""

    def exact(self, points: Array) -> Array:
        """f at the points (n, d), shape (n,)."""
        columns = np.asarray(points, dtype=np.float64).T
        return np.asarray(sum(self.term(i, x) for i, x in enumerate(columns, start=1)))

    @property
    def sd(self) -> float:
        """Standard deviation over the space: the terms' variances add up, each by the midpoint rule."""
        return _deviation(self)


@dataclass(frozen=True)
class SmoothSum(Sum):
    """A sum whose terms' slopes are known. Give ``slope`` and, where it is not 1, ``weight``.

    Args:
        oracle: State the equation sum_i c_i df/dx_i = sum_i c_i f_i'(x_i). It is true, but its right-hand side is
            computed from f itself and gives f away up to a constant.
    """

    oracle: bool = False

    @abstractmethod
    def slope(self, i: int, x: Values) -> Values:
        """f_i' at values (n,) of the i-th variable, counted from 1; shape (n,)."""

    def weight(self, i: int) -> float:
        """c_i, the weight of the i-th slope in the equation."""
        return 1.0

    @property
    def domain(self) -> Domain | None:
        """The whole space, if the equation is stated; else None."""
        return self.box if self.oracle else None

    @property
    def equation(self) -> LinearEquation | None:
        """The equation sum_i c_i df/dx_i = sum_i c_i f_i'(x_i); None unless ``oracle``."""
        if not self.oracle:
            return None
        d = self.dimension
        weights = tuple(self.weight(i) for i in range(1, d + 1))
        return LinearEquation(0.0, weights, ((0.0,) * d,) * d, right=self._slopes)

    def optimum(self, sense: Sense) -> Optimum:
        """The best value of every term by itself, by a scan of the interval and the root of the slope next to it."""
        return _best(self, -1.0 if sense == "maximize" else 1.0)

    def _slopes(self, points: Values) -> Values:
        return sum(self.weight(i) * self.slope(i, points[:, i - 1]) for i in range(1, self.dimension + 1))


@lru_cache(maxsize=64)
def _deviation(problem: Sum) -> float:
    low, high = problem.interval
    middles = low + (high - low) * (np.arange(_SCAN) + 0.5) / _SCAN
    return float(np.sqrt(sum(np.var(problem.term(i, middles)) for i in range(1, problem.dimension + 1))))


@lru_cache(maxsize=64)
def _best(problem: SmoothSum, sign: float) -> Optimum:
    numbers = range(1, problem.dimension + 1)
    place = [_lowest(problem, i, sign) for i in numbers]
    value = problem.exact(np.array([place]))[0]
    return Optimum({f"x{i}": x for i, x in zip(numbers, place, strict=True)}, float(value))


def _lowest(problem: SmoothSum, i: int, sign: float) -> float:
    """Value of the i-th variable at which the i-th term times ``sign`` is least."""
    along = np.linspace(*problem.interval, _SCAN + 1)
    at = int(np.argmin(sign * problem.term(i, along)))
    if at in (0, _SCAN):
        return float(along[at])
    return _root(lambda x: float(problem.slope(i, np.array([x]))[0]), along[at - 1], along[at + 1])


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(slope, low, high, xtol=1e-15, rtol=1e-15))
