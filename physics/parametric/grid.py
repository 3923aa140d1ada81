"""Grids of equal cells over a domain, or over the part of its box that a mask leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """Equal cells that cover the box of a domain; values are at their centres.

    With a mask, those cells are inside whose centres belong to the domain.

    Args:
        domain: The box of d axes, or the part of it that a mask leaves.
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
        return np.stack([each.ravel() for each in np.meshgrid(*self.centres.values(), indexing="ij")], axis=1)

    @property
    def inside(self) -> Flags:
        """True for each cell whose centre belongs to the domain, in the order of ``points``, shape (cells,).

        Raises:
            ValueError: the mask leaves no cell.
        """
        return _inside(self)

    def picked(self, values: Array) -> Array:
        """The N values inside among those at all cells, (..., *cells) to (..., N)."""
        flat = values.reshape(*values.shape[: values.ndim - len(self.cells)], -1)
        return flat if self.domain.mask is None else np.asarray(flat[..., self.inside])

    def boxed(self, values: Array) -> Array:
        """Values at all cells for those at the N inside, (..., N) to (..., *cells); NaN outside."""
        if self.domain.mask is None:
            return values.reshape(*values.shape[:-1], *self.cells)
        whole = np.full((*values.shape[:-1], len(self.inside)), np.nan)
        whole[..., self.inside] = values
        return whole.reshape(*values.shape[:-1], *self.cells)


@lru_cache(maxsize=64)
def _inside(grid: Grid) -> Flags:
    """``Grid.inside``, which a process computes once."""
    found = grid.domain.contains(grid.points)
    if not found.any():
        raise ValueError(
            f"The domain's mask leaves none of the {' x '.join(map(str, grid.cells))} cells: correct the mask, or use "
            "more cells."
        )
    return found
