"""Branin's and Currin's functions of the same two variables: two objectives that pull apart."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BraninCurrin(Problem):
    """Minimise Branin's function of (15 x1 - 5, 15 x2) and Currin's of (x1, x2) (Belakaria et al., 2019).

    Currin's is (1 - exp(-1 / (2 x2))) (2300 x1^3 + 1900 x1^2 + 2092 x1 + 60) / (100 x1^3 + 500 x1^2 + 4 x1 + 20).
    """

    @property
    def space(self) -> SearchSpace:
        """x1 and x2 in [0, 1], pure numbers."""
        return SearchSpace((Continuous("x1", 0.0, 1.0), Continuous("x2", 0.0, 1.0)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Both functions, pure numbers to be minimised, with the reference point (18, 6)."""
        return Output("branin", "", "minimize", 18.0), Output("currin", "", "minimize", 6.0)

    @property
    def most_hypervolume(self) -> float:
        """The hypervolume of the whole front, found by NSGA-II and stated with BoTorch's test function."""
        return 59.36011874867746

    def values(self, points: Array) -> Array:
        """Both functions at the points (n, 2), shape (n, 2)."""
        x1, x2 = np.asarray(points, dtype=np.float64).T
        with np.errstate(divide="ignore"):
            fall = 1 - np.exp(-1 / (2 * x2))  # 1 where x2 is 0
        ratio = (2300 * x1**3 + 1900 * x1**2 + 2092 * x1 + 60) / (100 * x1**3 + 500 * x1**2 + 4 * x1 + 20)
        branin = Branin().exact(np.column_stack([15 * x1 - 5, 15 * x2]))
        return np.column_stack([branin, fall * ratio])

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        found = self.values(np.array([[float(design["x1"]), float(design["x2"])]]))[0]
        return {"branin": float(found[0]), "currin": float(found[1])}
