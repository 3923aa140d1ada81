"""A car hit from the side: seven thicknesses and lengths, four objectives (Jain and Deb, 2014)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]

_BOUNDS = ((0.5, 1.5), (0.45, 1.35), (0.5, 1.5), (0.5, 1.5), (0.875, 2.625), (0.4, 1.2), (0.4, 1.2))


@dataclass(frozen=True)
class CarSideImpact(Problem):
    """Minimise a car's mass, the force on the pubis, the velocity of its side, and by how much ten limits are exceeded.

    Response surfaces in the form of Tanabe and Ishibuchi (2020), RE4-7-1, where the limits are the fourth objective.
    """

    @property
    def space(self) -> SearchSpace:
        """x1, ..., x7: thicknesses of pillar, floor, beams, door, belt line and roof rail, in mm."""
        return SearchSpace(tuple(Continuous(f"x{i}", low, high, "mm") for i, (low, high) in enumerate(_BOUNDS, 1)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Mass in kg, force in kN, mean velocity of pillar and door in mm/ms, the sum of the excesses."""
        return (
            Output("mass", "kg", "minimize", 45.4872),
            Output("force", "kN", "minimize", 4.5114),
            Output("velocity", "mm/ms", "minimize", 13.3394),
            Output("excess", "", "minimize", 10.3942),
        )

    @property
    def most_hypervolume(self) -> float:
        """The hypervolume of Tanabe's approximate front, stated with BoTorch's test function."""
        return 484.72654347642793

    def values(self, points: Array) -> Array:
        """All outputs at the points (n, 7), shape (n, 4)."""
        x1, x2, x3, x4, x5, x6, x7 = np.asarray(points, dtype=np.float64).T
        mass = 1.98 + 4.9 * x1 + 6.67 * x2 + 6.98 * x3 + 4.01 * x4 + 1.78 * x5 + 1e-5 * x6 + 2.73 * x7
        force = 4.72 - 0.5 * x4 - 0.19 * x2 * x3
        pillar = 10.58 - 0.674 * x1 * x2 - 0.67275 * x2
        door = 16.45 - 0.489 * x3 * x7 - 0.843 * x5 * x6
        loads = (  # of abdomen, chest by three criteria, and three ribs, with the limit of each
            (1.16 - 0.3717 * x2 * x4 - 0.0092928 * x3, 1.0),
            (
                0.261 - 0.0159 * x1 * x2 - 0.06486 * x1 - 0.019 * x2 * x7 + 0.0144 * x3 * x5 + 0.0154464 * x6,
                0.32,
            ),
            (
                0.214 + 0.00817 * x5 - 0.0587118 * x1 + 0.03099 * x2 * x6 - 0.018 * x2 * x7 + 0.030408 * x3
                - 0.00364 * x5 * x6 - 0.018 * x2**2,
                0.32,
            ),
            (0.74 - 0.61 * x2 - 0.031296 * x3 - 0.031872 * x7 + 0.227 * x2**2, 0.32),
            (28.98 + 3.818 * x3 - 4.2 * x1 * x2 + 1.27296 * x6 - 2.68065 * x7, 32.0),
            (33.86 + 2.95 * x3 - 5.057 * x1 * x2 - 3.795 * x2 - 3.4431 * x7 + 1.45728, 32.0),
            (46.36 - 9.9 * x2 - 4.4505 * x1, 32.0),
            (force, 4.0),
            (pillar, 9.9),
            (door, 15.7),
        )  # fmt: skip
        excess = sum(np.maximum(load - limit, 0.0) for load, limit in loads)
        return np.column_stack([mass, force, (pillar + door) / 2, excess])

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        found = self.values(np.array([[float(design[f"x{i}"]) for i in range(1, 8)]]))[0]
        return {output.name: float(value) for output, value in zip(self.outputs, found, strict=True)}
