"""Two distances from a quarter circle, of which two arcs alone are allowed (Deb and Jain, 2014)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]

_RADIUS = 0.2


@dataclass(frozen=True)
class C2Dtlz2(Problem):
    """C2-DTLZ2 of four variables: minimise f1 = (1 + g) cos(pi x1 / 2) and f2 = (1 + g) sin(pi x1 / 2).

    g is the sum of (x_i - 1/2)^2 over x2, x3 and x4. Feasible is (f1, f2) within 0.2 of (1, 0) or of (0, 1), or within
    0.2 sqrt 2 of (1, 1) / sqrt 2.
    """

    @property
    def space(self) -> SearchSpace:
        """x1, ..., x4 in [0, 1], pure numbers."""
        return SearchSpace(tuple(Continuous(f"x{i}", 0.0, 1.0) for i in range(1, 5)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """f1 and f2 with the reference point (1.1, 1.1), and the constraint c; pure numbers."""
        return Output("f1", "", "minimize", 1.1), Output("f2", "", "minimize", 1.1), Output("c")

    @property
    def most_hypervolume(self) -> float:
        """The hypervolume of the whole front, found by NSGA-II and stated with BoTorch's test function."""
        return 0.3996406303723544

    def values(self, points: Array) -> Array:
        """f1, f2 and c at the points (n, 4), shape (n, 3)."""
        X = np.asarray(points, dtype=np.float64)
        radius, angle = 1 + np.sum((X[:, 1:] - 0.5) ** 2, axis=1), np.pi / 2 * X[:, 0]
        f = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        centres = np.array([[1.0, 0.0], [0.0, 1.0], [np.sqrt(0.5), np.sqrt(0.5)]])
        away = np.sum((f[:, None] - centres) ** 2, axis=2) - np.array([1.0, 1.0, 2.0]) * _RADIUS**2
        return np.column_stack([f, away.min(axis=1)])

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        found = self.values(np.array([[float(design[f"x{i}"]) for i in range(1, 5)]]))[0]
        return dict(zip(("f1", "f2", "c"), map(float, found), strict=True))
