"""Grids of equal cells over a domain."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Equal cells that cover a domain; values are at their centres.

    Args:
        domain: The box of d axes.
        cells: Number of cells along each axis, at least 2.

    Raises:
        ValueError: not one number an axis, or one below 2.
    """

    domain: Domain
    cells: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.cells) != len(self.domain.axes) or any(n < 2 for n in self.cells):
            raise ValueError(
                f"A grid over {', '.join(self.domain.names)} has the cells {list(self.cells)}: give one number an "
                "axis, each at least 2."
            )

    @cached_property
    def spacing(self) -> tuple[float, ...]:
        """Size of a cell along each axis, in the axis's unit."""
        low, high = self.domain.bounds
        return tuple(((high - low) / np.array(self.cells)).tolist())

    @cached_property
    def centres(self) -> Mapping[str, Array]:
        """Centres of the cells along each axis, in its unit, by the axis's name."""
        both = zip(self.domain.axes, self.cells, self.spacing, strict=True)
        return {axis.name: axis.low + step * np.arange(0.5, n, dtype=np.float64) for axis, n, step in both}

    @cached_property
    def points(self) -> Array:
        """Centres of all cells, the last axis fastest, shape (cells, d)."""
        return _crossed(self.centres)

    def side(self, axis: str, end: Literal["low", "high"]) -> Array:
        """Centres of the faces of the cells at one end of an axis, in the order of the cells, shape (faces, d)."""
        low, high = self.domain.bounds[:, self.domain.names.index(axis)]
        return _crossed({**self.centres, axis: np.array([low if end == "low" else high])})


def _crossed(places: Mapping[str, Array]) -> Array:
    """All points with one of these places along each axis, shape (points, d)."""
    return np.stack([each.ravel() for each in np.meshgrid(*places.values(), indexing="ij")], axis=1)
