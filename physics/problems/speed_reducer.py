"""The design of a speed reducer: seven variables, one of them whole, eleven constraints."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.constrained import ConstrainedFormula
from fieldcraft.physics.space import Integer, SearchSpace

Array = NDArray[np.float64]

# The least length of the second shaft in each box, and the best design there: the roots of its active constraints.
_BOXES = {
    "authors": (7.8, (3.5, 0.7, 17, 7.3, 7.8, 3.3505409491058917, 5.286683229757916)),
    "cec2020": (7.3, (3.5, 0.7, 17, 7.3, 7.715319911478243, 3.3505409491058917, 5.286654464980221)),
}


@dataclass(frozen=True)
class SpeedReducer(ConstrainedFormula):
    """Weight of a gear box (Golinski, 1970; constants of Kumar et al., 2020) under limits of stress and deflection.

    x1: face width; x2: module of the teeth; x3: teeth of the pinion; x4, x5: lengths of the shafts between bearings;
    x6, x7: their diameters (cm). A thousandth of the box is feasible, and the constraints differ in scale by 400.

    Args:
        box: x5 from 7.8 (``authors`` of Neural-CBO) or from 7.3 (``cec2020``).

    Raises:
        ValueError: another box.
    """

    box: Literal["authors", "cec2020"] = "authors"

    constraints = 11
    spread = 859.3  # with whole x3; 801.7 were it real

    def __post_init__(self) -> None:
        if self.box not in _BOXES:
            raise ValueError(f"The speed reducer has no box {self.box!r}: choose one of {', '.join(_BOXES)}.")

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Least and greatest value of each of the seven variables."""
        shaft = (_BOXES[self.box][0], 8.3)
        return ((2.6, 3.6), (0.7, 0.8), (17.0, 28.0), (7.3, 8.3), shaft, (2.9, 3.9), (5.0, 5.5))

    @property
    def space(self) -> SearchSpace:
        """x1, ..., x7; x3 is whole."""
        x1, x2, _, *rest = super().space.variables
        return SearchSpace((x1, x2, Integer("x3", 17, 28), *rest))

    @property
    def best(self) -> tuple[tuple[float, ...], float]:
        """The best design of the box and its weight: 2996.301563 or 2994.424466."""
        place = _BOXES[self.box][1]
        return place, float(self.exact(np.array([place]))[0])

    def exact(self, points: Array) -> Array:
        """f at the points (n, 7), shape (n,)."""
        x1, x2, x3, x4, x5, x6, x7 = np.asarray(points, dtype=np.float64).T
        gears = 0.7854 * x1 * x2**2 * (3.3333 * x3**2 + 14.9334 * x3 - 43.0934) - 1.508 * x1 * (x6**2 + x7**2)
        return np.asarray(gears + 7.477 * (x6**3 + x7**3) + 0.7854 * (x4 * x6**2 + x5 * x7**2))

    def exact_constraints(self, points: Array) -> Array:
        """c at the points (n, 7), shape (n, 11): teeth, shafts' deflection and stress, then the geometry."""
        x1, x2, x3, x4, x5, x6, x7 = np.asarray(points, dtype=np.float64).T
        stress = [
            10 / x**3 * np.sqrt(load + (745 * length / (x2 * x3)) ** 2) - limit
            for x, length, load, limit in ((x6, x4, 16.91e6, 1100), (x7, x5, 157.5e6, 850))
        ]
        return np.stack(
            [
                27 - x1 * x2**2 * x3,
                397.5 - x1 * x2**2 * x3**2,
                1.93 - x2 * x3 * x6**4 / x4**3,
                1.93 - x2 * x3 * x7**4 / x5**3,
                *stress,
                x2 * x3 - 40,
                5 - x1 / x2,
                x1 / x2 - 12,
                1.5 * x6 - x4 + 1.9,
                1.1 * x7 - x5 + 1.9,
            ],
            axis=1,
        )
