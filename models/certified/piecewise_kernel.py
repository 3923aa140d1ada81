"""A stationary kernel that is linear between breakpoints, as PK-MIQP states it (section 4.1 of its paper).

With eps half of the largest k''(r), the kernel counts as curved on [0, r1] and [r2, r3], as nearly straight on
[r1, r2], and as a tail beyond r3, where k''(r1) = -eps and k''(r2) = k''(r3) = eps. In D coordinates these intervals
have 2D, 2D, D and 2D pieces of equal length.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
import torch
from scipy.optimize import brentq, minimize_scalar

from fieldcraft.models.gaussian.kernel_bounds import Radial
from fieldcraft.models.observations import Array

Form = Literal["r", "q"]
"""What k~ is linear in between breakpoints: the distance r, or q = r^2."""

# Points of each piece at which the error is looked at: it falls short of the largest by at most a millionth.
_GRID = 1001
# Distances between which a kernel's curvature has its peak and falls again to half of it.
_NEAR, _FAR = 1e-9, 20.0


@dataclass(frozen=True, eq=False)
class PiecewiseKernel:
    """k~, equal to a kernel of variance 1 at its breakpoints and linear between them.

    Args:
        radial: The kernel.
        form: Variable in which it is linear: r, or q = r^2.
        distances: Breakpoints R_0 = 0 < ... < R_M as distances, shape (M + 1,).
    """

    radial: Radial
    form: Form
    distances: Array

    @classmethod
    def of(
        cls, radial: Radial, form: Form, dimension: int, reach: float, tolerance: float | None = None
    ) -> "PiecewiseKernel":
        """The paper's pieces for distances up to ``reach``; pieces with an error above ``tolerance`` are halved.

        Raises:
            ValueError: the kernel's curvature is largest at a distance of zero, so that it has no such intervals.
        """
        kernel = cls(radial, form, _published(radial, dimension, reach))
        while tolerance is not None and np.any(coarse := kernel.errors > tolerance):
            middles = (kernel.distances[:-1] + kernel.distances[1:]) / 2
            kernel = cls(radial, form, np.sort(np.append(kernel.distances, middles[coarse])))
        return kernel

    @cached_property
    def nodes(self) -> Array:
        """Breakpoints in r or q, depending on ``form``, shape (M + 1,)."""
        return self.distances if self.form == "r" else self.distances**2

    @cached_property
    def heights(self) -> Array:
        """k at the breakpoints, shape (M + 1,)."""
        return _value(self.radial, self.distances)

    def value(self, distances: Array) -> Array:
        """k~ at distances of any shape up to R_M."""
        at = distances if self.form == "r" else distances**2
        return np.asarray(np.interp(at, self.nodes, self.heights))

    @cached_property
    def errors(self) -> Array:
        """Largest |k~ - k| of each piece, in prior variances, shape (M,)."""
        r = np.linspace(self.distances[:-1], self.distances[1:], _GRID)
        return np.asarray(np.abs(self.value(r) - _value(self.radial, r)).max(axis=0))

    @property
    def error(self) -> float:
        """Largest |k~ - k| up to R_M, in prior variances."""
        return float(self.errors.max())


@cache
def bends(radial: Radial) -> tuple[float, float, float]:
    """r1, r2 and r3 of a kernel.

    Raises:
        ValueError: its curvature is largest at a distance of zero.
    """
    if radial.kind == "matern12":
        raise ValueError(
            "The kernel matern12 has a kink at a distance of zero and no straight part there, which the pieces of "
            "pk_miqp presuppose: use matern32, matern52 or rbf, or `maximizer: certified`, which takes matern12."
        )
    peak = float(minimize_scalar(lambda r: -_curvature(radial, r), bounds=(_NEAR, _FAR / 4), method="bounded").x)
    half = _curvature(radial, peak) / 2
    rise = brentq(lambda r: _curvature(radial, r) + half, _NEAR, peak, xtol=1e-14)
    straight = brentq(lambda r: _curvature(radial, r) - half, _NEAR, peak, xtol=1e-14)
    return float(rise), float(straight), float(brentq(lambda r: _curvature(radial, r) - half, peak, _FAR, xtol=1e-14))


def _published(radial: Radial, dimension: int, reach: float) -> Array:
    """The paper's breakpoints up to ``reach``, shape (M + 1,)."""
    ends = np.minimum([0.0, *bends(radial), max(reach, bends(radial)[-1])], reach)
    pieces = (2 * dimension, dimension, 2 * dimension, 2 * dimension)
    parts = [
        np.linspace(low, high, n, endpoint=False)
        for low, high, n in zip(ends[:-1], ends[1:], pieces, strict=True)
        if low < high
    ]
    return np.concatenate([*parts, [reach]])


def _value(radial: Radial, r: Array) -> Array:
    return np.asarray(radial.value(torch.from_numpy(np.square(r))).numpy())


def _curvature(radial: Radial, r: float) -> float:
    """k''(r) = 2 dk/dq + 4 q d^2k/dq^2."""
    q = torch.tensor(r * r, dtype=torch.float64)
    return float(2 * radial.slope(q) + 4 * q * radial.bend(q))
