"""Nonlinear terms of stated equations: F(x, u, grad u), with their derivatives by the fields and their slopes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class State:
    """A field at p points.

    Args:
        value: u in the field's unit, shape (p,).
        slope: Function from the number of an axis of space to du/dx along it, shape (p,).
    """

    value: Array
    slope: Callable[[int], Array]


@dataclass(frozen=True, eq=False)
class Nonlinear:
    """The nonlinear term F of one equation at p points, and its derivatives.

    Args:
        value: F, shape (p,).
        by_value: dF/du for each field, in their order, each (p,); the number 0 for one that does not occur.
        by_slope: dF/d(du/dx) for each field, and in each for each axis of space, each (p,) or the number 0; empty where
            no slope occurs.

    Burgers' advection u u_x over one axis of space, of one field:

        Nonlinear(u.value * u.slope(0), by_value=(u.slope(0),), by_slope=((u.value,),))
    """

    value: Array
    by_value: tuple[Array | float, ...]
    by_slope: tuple[tuple[Array | float, ...], ...] = ()


Bound = Callable[[Array, tuple[State, ...]], tuple[Nonlinear | None, ...]]
"""The nonlinear terms of one design, one for each equation, as a function of points (p, d) and the fields there."""
