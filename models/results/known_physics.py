"""Known physics of the objective: its equation at collocation points, and its conditions on sides of the domain."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcraft.physics.operators import Equation, System

Array = NDArray[np.float64]


def frozen(values: ArrayLike) -> Array:
    """A read-only float64 copy, so that data cannot change after their digest was taken."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def refuse_non_finite(array: Array, name: str, remedy: str) -> None:
    """Accept an array without NaN and infinities.

    Raises:
        ValueError: it holds one; names the first and the remedy.
    """
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name} holds {array[place]} at index {place} ({len(bad)} such values): "
            f"every value must be finite; {remedy}"
        )


@dataclass(frozen=True, eq=False)
class KnownSide:
    """The condition a f + b df/dn = g at points of one side of the equation's domain.

    Args:
        points: Shape (m, d), in physical units.
        normal: Outward unit normal, shape (d,).
        right: g at the points, shape (m,).
        value: a.
        slope: b; a derivative is by the axis in its own unit.

    Raises:
        ValueError: shapes disagree, a value is not finite, or a = b = 0.
    """

    points: Array
    normal: Array
    right: Array
    value: float = 1.0
    slope: float = 0.0

    def __post_init__(self) -> None:
        for name in ("points", "normal", "right"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            refuse_non_finite(getattr(self, name), f"KnownSide.{name}", "check the problem's conditions.")
        m, d = self.points.shape
        if self.normal.shape != (d,) or self.right.shape != (m,) or self.value == self.slope == 0:
            raise ValueError(
                f"points {self.points.shape}, normal {self.normal.shape}, right {self.right.shape}, value {self.value} "
                f"and slope {self.slope} do not fit: give points (m, d), normal (d,), right (m,) and not both 0."
            )


@dataclass(frozen=True, eq=False)
class Physics:
    """The equation that the objective satisfies as a function of the design, and the points at which to impose it.

    Args:
        equation: N[f] = g, or a system of f and auxiliary fields, with f the objective in its own unit and derivatives
            by the physical design variables.
        points: Collocation points, shape (r, d), in physical units.
        center: Middle of each variable's interval, shape (d,), in physical units.
        half: Half length of each variable's interval, shape (d,), in physical units, positive.
        sides: What is known of the objective on sides of the equation's domain.
        masked: True if the equation holds on a part of a box alone, which the points lie in.

    Encoded coordinates are (physical - center) / half, so d/d(physical) = d/d(encoded) / half.

    Raises:
        ValueError: shapes disagree, a value is not finite, or a half length is not positive.
    """

    equation: Equation | System
    points: Array
    center: Array
    half: Array
    sides: tuple[KnownSide, ...] = ()
    masked: bool = False

    def __post_init__(self) -> None:
        for name in ("points", "center", "half"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            refuse_non_finite(getattr(self, name), f"Physics.{name}", "check the problem's domain and search space.")
        if (
            self.points.ndim != 2
            or self.center.shape != (self.points.shape[1],)
            or self.half.shape != self.center.shape
        ):
            raise ValueError(
                f"points {self.points.shape}, center {self.center.shape} and half {self.half.shape} do not fit: "
                "give points (r, d), center (d,) and half (d,)."
            )
        for side in self.sides:
            if side.points.shape[1] != len(self.half):
                raise ValueError(
                    f"A side's points {side.points.shape} and the collocation points {self.points.shape} do not fit: "
                    "give them the same number of coordinates."
                )
        if not np.all(self.half > 0):
            raise ValueError(f"half is {self.half.tolist()}: every half length must be positive; check the bounds.")

    def encode(self, points: ArrayLike) -> Array:
        """Physical points (r, d) in encoded coordinates, shape (r, d)."""
        return np.asarray((np.asarray(points, dtype=np.float64) - self.center) / self.half)

    def decode(self, X: ArrayLike) -> Array:
        """Encoded points (r, d) in physical coordinates, shape (r, d)."""
        return np.asarray(np.asarray(X, dtype=np.float64) * self.half + self.center)
