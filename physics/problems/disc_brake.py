"""A disc brake: its mass against its stopping time, under four constraints (Osyczka and Kundu, 1995)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Infeasible, Output, Problem
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DiscBrake(Problem):
    """Minimise the mass and the stopping time of a disc brake, in the form of Tanabe and Ishibuchi (2020), CRE2-4-3.

    The number of friction surfaces is a real number, as there.
    """

    @property
    def space(self) -> SearchSpace:
        """Inner and outer radius of the discs, the engaging force, and the number of friction surfaces."""
        return SearchSpace(
            (
                Continuous("inner", 55.0, 80.0, "mm"),
                Continuous("outer", 75.0, 110.0, "mm"),
                Continuous("force", 1000.0, 3000.0, "N"),
                Continuous("surfaces", 11.0, 20.0),
            )
        )

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Mass and stopping time with BoTorch's references; by how much the four limits are exceeded.

        These are the least distance of the radii, the largest pressure and temperature, and the least torque.
        """
        return (
            Output("mass", "kg", "minimize", 5.7771),
            Output("time", "s", "minimize", 3.9651),
            Output("distance", "mm"),
            Output("pressure"),
            Output("heat"),
            Output("torque"),
        )

    def values(self, points: Array) -> Array:
        """All outputs at the points (n, 4), shape (n, 6)."""
        x1, x2, x3, x4 = np.asarray(points, dtype=np.float64).T
        squares, cubes = x2**2 - x1**2, x2**3 - x1**3
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.column_stack(
                [
                    4.9e-5 * squares * (x4 - 1),
                    9.82e6 * squares / (x3 * x4 * cubes),
                    20 - (x2 - x1),
                    x3 / (3.14 * squares) - 0.4,
                    2.22e-3 * x3 * cubes / squares**2 - 1,
                    900 - 2.66e-2 * x3 * x4 * cubes / squares,
                ]
            )

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``.

        Raises:
            Infeasible: the radii are equal.
        """
        found = self.values(np.array([[float(design[name]) for name in self.space.names]]))[0]
        if not np.isfinite(found).all():
            raise Infeasible("the discs have no width")
        return {output.name: float(value) for output, value in zip(self.outputs, found, strict=True)}
