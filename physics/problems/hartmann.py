"""Hartmann's functions of three and six variables: four Gaussian pits."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.formulas import Formula
from fieldcraft.physics.problem import Optimum, Sense

Array = NDArray[np.float64]

_DEPTHS = np.array([1.0, 1.2, 3.0, 3.2])
_SHARPNESS = {
    3: np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]]),
    6: np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    ),
}
_CENTRES = {
    3: 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    6: 1e-4
    * np.array(
        [
            [1312.0, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    ),
}
# Where all slopes vanish, by Newton's method from the best of 60 searches.
_BEST = {
    3: (0.11458887665507, 0.55564889461693, 0.85254698468668),
    6: (0.20168951100671, 0.15001069182346, 0.47687397422190, 0.27533243049406, 0.31165161660011, 0.65730053406562),
}
# Of 2 million uniform points.
_SD = {3: 0.956, 6: 0.385}


@dataclass(frozen=True)
class Hartmann(Formula):
    """f = -sum_k c_k exp(-sum_j a_kj (x_j - p_kj)^2) on [0, 1]^d (Hartman, 1973; constants of Dixon and Szego, 1978).

    The minimum is -3.322368011 in six variables and -3.862779787 in three.

    Args:
        dimension: Number of variables.

    Raises:
        ValueError: another number.
    """

    dimension: Literal[3, 6] = 6

    interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.dimension not in _BEST:
            raise ValueError(f"Hartmann's function of {self.dimension!r} variables is not known: choose 3 or 6.")

    @property
    def sd(self) -> float:
        """Standard deviation over the space."""
        return _SD[self.dimension]

    def exact(self, points: Array) -> Array:
        """f at the points (n, d), shape (n,)."""
        away = np.asarray(points, dtype=np.float64)[:, None, :] - _CENTRES[self.dimension]
        return np.asarray(-np.exp(-np.sum(_SHARPNESS[self.dimension] * away**2, axis=2)) @ _DEPTHS)

    def optimum(self, sense: Sense) -> Optimum | None:
        """The minimum; None for the maximum."""
        if sense == "maximize":
            return None
        best = np.array([_BEST[self.dimension]])
        return Optimum(dict(zip(self.space.names, best[0].tolist(), strict=True)), float(self.exact(best)[0]))
