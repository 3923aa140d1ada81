"""Ackley's function: a plain with ripples around a deep hole."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.formulas import Formula
from fieldcraft.physics.problem import Optimum, Sense

Array = NDArray[np.float64]

# Uniform points, of a fixed seed, from which the standard deviation is estimated: right to about 0.6%.
_DRAWS = 50_000


@dataclass(frozen=True)
class Ackley(Formula):
    """f = 20 + e - 20 exp(-0.2 sqrt(mean x_i^2)) - exp(mean cos 2 pi x_i) on a box (Ackley, 1987).

    Args:
        dimension: Number of variables, at least 1.
        low: Least value of every variable.
        high: Greatest value of every variable.

    Raises:
        ValueError: no variable, or bounds that are not in order.
    """

    dimension: int = 10
    low: float = -32.768
    high: float = 32.768

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise ValueError(f"The problem Ackley has the bounds [{self.low}, {self.high}]: give the lower first.")

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of every variable."""
        return self.low, self.high

    @property
    def sd(self) -> float:
        """Standard deviation over the space, estimated from uniform points of a fixed seed."""
        return _deviation(self)

    def exact(self, points: Array) -> Array:
        """f at the points (n, d), shape (n,)."""
        points = np.asarray(points, dtype=np.float64)
        hole = 20 * (1 - np.exp(-0.2 * np.sqrt(np.mean(points**2, axis=1))))
        return np.asarray(hole + math.e - np.exp(np.mean(np.cos(2 * math.pi * points), axis=1)))

    def optimum(self, sense: Sense) -> Optimum | None:
        """The minimum, 0 at 0, where the box holds it; None for the maximum."""
        inside = self.low <= 0 <= self.high
        return self.everywhere(0.0, at=0.0) if sense == "minimize" and inside else None


@lru_cache(maxsize=16)
def _deviation(problem: Ackley) -> float:
    uniform = np.random.default_rng(0).random((_DRAWS, problem.dimension))
    return float(np.std(problem.exact(problem.low + (problem.high - problem.low) * uniform)))
