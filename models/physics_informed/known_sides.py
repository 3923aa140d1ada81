"""Conditions on the sides of an equation's domain, as linear rows of the target in encoded coordinates."""

from dataclasses import dataclass

import numpy as np

from fieldcraft.models.observations import Array, Physics, Scaling
from fieldcraft.models.physics_informed.residuals import LinearOperator


@dataclass(frozen=True)
class SideRows:
    """Conditions a f + b df/dn = g of all sides in the learner's units: operator t = source at m points.

    Args:
        points: Encoded points, shape (m, d).
        operator: The operator of the target; it has no second derivatives.
        source: Right-hand side, shape (m,).
    """

    points: Array
    operator: LinearOperator
    source: Array

    def __len__(self) -> int:
        return len(self.source)

    @property
    def of_values(self) -> bool:
        """True if every condition gives the value alone."""
        return not self.operator.first.any()


def side_rows(physics: Physics, scaling: Scaling) -> SideRows:
    """The conditions for targets of this scaling, each divided by its largest encoded coefficient."""
    m, d = sum(len(side.points) for side in physics.sides), len(physics.half)
    zeroth, first, source, points = np.empty(m), np.empty((m, d)), np.empty(m), np.empty((m, d))
    begin = 0
    for side in physics.sides:
        rows = slice(begin, begin + len(side.points))
        slope = side.slope * side.normal / physics.half
        scale = max(abs(side.value), float(np.max(np.abs(slope))))
        points[rows], zeroth[rows], first[rows] = physics.encode(side.points), side.value / scale, slope / scale
        source[rows] = scaling.sign * (side.right - side.value * scaling.mean) / (scaling.sd * scale)
        begin += len(side.points)
    return SideRows(points, LinearOperator(zeroth, first, np.zeros((m, d, d))), source)


def known_values(physics: Physics, scaling: Scaling) -> tuple[Array, Array]:
    """Encoded points (m, d) of sides where the value is known, and the targets there (m,).

    Raises:
        ValueError: a condition has a slope.
    """
    rows = side_rows(physics, scaling)
    if not rows.of_values:
        raise ValueError(
            "A condition has a slope (a flux, or Robin's condition) and trained networks learn known values alone: use "
            "engine kernel or ntk."
        )
    return rows.points, rows.source / rows.operator.zeroth
