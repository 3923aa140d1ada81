"""Domains: the boxes of physical space, or parts of them, on which fields and equations live."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcraft.physics.space import SearchSpace
from fieldcraft.physics.variables import Continuous


@dataclass(frozen=True)
class Axis:
    """One coordinate axis.

    Args:
        name: Its name; a dimension's name in datasets, and the design variable's where the design is a place.
        low: Lower end, in ``unit``.
        high: Upper end, in ``unit``.
        unit: Physical unit; empty for a pure number.

    Raises:
        ValueError: a blank name, or bounds that are not finite or not in order.
    """

    name: str
    low: float
    high: float
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(f"An axis is named {self.name!r}: give every axis a name that is not blank.")
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"The axis {self.name} runs from {self.low} to {self.high}: give finite bounds, the lower first."
            )


@dataclass(frozen=True)
class Domain:
    """A box of d axes, or the part of it that a mask leaves.

    Args:
        axes: At least one, with different names; their order is the order of a point's coordinates.
        mask: Function from points (n, d) of the box, in physical units, to True for each that belongs to the domain,
            shape (n,): an L, a plate with holes. None where the whole box belongs to it.

    Raises:
        ValueError: no axis, a repeated name, one axis that is no tuple, or a mask that is no function.
    """

    axes: tuple[Axis, ...]
    mask: Callable[[NDArray[np.float64]], NDArray[np.bool_]] | None = None

    def __post_init__(self) -> None:
        refuse_bare("axes", self.axes)
        if not self.axes or len(set(self.names)) < len(self.axes):
            raise ValueError(f"A domain has the axes {self.names}: give at least one, and each its own name.")
        if self.mask is not None and not callable(self.mask):
            raise ValueError(
                f"The domain's mask is a {type(self.mask).__name__}: give a function of the points (n, d)."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(axis.name for axis in self.axes)

    @cached_property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper ends of the axes in physical units, shape (2, d)."""
        return np.array([[axis.low for axis in self.axes], [axis.high for axis in self.axes]], dtype=np.float64)

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """True for each of the points (n, d), in physical units, that lies in the closed box and its mask; shape (n,).

        Raises:
            ValueError: points of another dimension, or a mask that does not give one truth value for each point.
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self.axes):
            raise ValueError(f"Points have the shape {points.shape}: give (n, {len(self.axes)}), one column an axis.")
        low, high = self.bounds
        found = np.asarray(np.all((points >= low) & (points <= high), axis=1))
        if self.mask is None:
            return found
        asked = points.view()
        asked.flags.writeable = False  # a mask that writes into the points would move them
        kept = np.asarray(self.mask(asked))
        if kept.shape != found.shape or kept.dtype != np.bool_:
            raise ValueError(
                f"The domain's mask gave an array of the shape {kept.shape} and type {kept.dtype} for {len(points)} "
                f"points: it must give True or False for each, ({len(points)},)."
            )
        return np.asarray(found & kept)


def refuse_bare(name: str, given: object) -> None:
    """Accept several entries of a statement.

    Raises:
        ValueError: it is one entry without the comma that makes it a tuple.
    """
    if not isinstance(given, tuple | list):
        raise ValueError(
            f"`{name}` is a single {type(given).__name__}: give a tuple, with a comma after a single entry, as (a,)."
        )


def same_axes(domain: Domain, space: SearchSpace) -> bool:
    """True if an equation's axes are the design's variables: the same, in the same order, on linear scales.

    Nothing in them is periodic, exchangeable or conditional."""
    linear = (isinstance(variable, Continuous) and not variable.log for variable in space.variables)
    return domain.names == space.names and all(linear) and space.plain
