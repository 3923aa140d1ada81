"""Crash-worthiness of a vehicle: five thicknesses, three objectives that pull apart (Liao et al., 2008)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VehicleSafety(Problem):
    """Minimise mass, deceleration and intrusion of a car's front, as response surfaces of five thicknesses in mm.

    The surfaces are those of Liao et al. (2008) in the form of Tanabe and Ishibuchi (2020), RE3-5-4.
    """

    @property
    def space(self) -> SearchSpace:
        """x1, ..., x5 in [1, 3] mm."""
        return SearchSpace(tuple(Continuous(f"x{i}", 1.0, 3.0, "mm") for i in range(1, 6)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Mass in kg, acceleration in m/s^2, intrusion in m; references 1.1 times the nadir of Tanabe's front."""
        return (
            Output("mass", "kg", "minimize", 1864.72022),
            Output("acceleration", "m/s^2", "minimize", 11.81993945),
            Output("intrusion", "m", "minimize", 0.2903999384),
        )

    @property
    def most_hypervolume(self) -> float:
        """The hypervolume of Tanabe's approximate front, stated with BoTorch's test function."""
        return 246.81607081187002

    def values(self, points: Array) -> Array:
        """All outputs at the points (n, 5), shape (n, 3)."""
        x1, x2, x3, x4, x5 = np.asarray(points, dtype=np.float64).T
        mass = 1640.2823 + 2.3573285 * x1 + 2.3220035 * x2 + 4.5688768 * x3 + 7.7213633 * x4 + 4.4559504 * x5
        acceleration = (
            6.5856 + 1.15 * x1 - 1.0427 * x2 + 0.9738 * x3 + 0.8364 * x4
            - 0.3695 * x1 * x4 + 0.0861 * x1 * x5 + 0.3628 * x2 * x4
            - 0.1106 * x1**2 - 0.3437 * x3**2 + 0.1764 * x4**2
        )  # fmt: skip
        intrusion = (
            -0.0551 + 0.0181 * x1 + 0.1024 * x2 + 0.0421 * x3
            - 0.0073 * x1 * x2 + 0.024 * x2 * x3 - 0.0118 * x2 * x4 - 0.0204 * x3 * x4 - 0.008 * x3 * x5
            - 0.0241 * x2**2 + 0.0109 * x4**2
        )  # fmt: skip
        return np.column_stack([mass, acceleration, intrusion])

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        found = self.values(np.array([[float(design[f"x{i}"]) for i in range(1, 6)]]))[0]
        return dict(zip(("mass", "acceleration", "intrusion"), map(float, found), strict=True))
