"""Fields carried from one grid of equal cells over a domain to another: finer by interpolation, coarser by averages."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Cells at most of a grid on which fields of many designs are read or kept.
_MOST = 10_000


def carried(values: Array, cells: tuple[int, ...]) -> Array:
    """Fields (n, *given cells) on so many cells along each axis, shape (n, *cells).

    Along an axis of more cells than were given they are interpolated by cubic splines (of lower degree through fewer
    than four cells), whose last pieces go on beyond the outermost centres. Along one of fewer they are means over each
    cell, by the lengths that overlap.
    """
    for axis, (given, asked) in enumerate(zip(values.shape[1:], cells, strict=True), start=1):
        if given != asked:
            matrix = (_splines if given < asked else _overlaps)(given, asked)
            values = np.moveaxis(np.tensordot(values, matrix, (axis, 1)), -1, axis)
    return values


def finer(cells: tuple[int, ...]) -> tuple[int, ...]:
    """Cells along each axis on which the fields of a coarse grid are read: four for each, unless they are too many."""
    factor = int((_MOST / math.prod(cells)) ** (1 / len(cells)))
    return tuple(max(1, min(4, factor)) * n for n in cells)


def fewer(cells: tuple[int, ...]) -> tuple[int, ...]:
    """Cells along each axis on which many fields are kept: as many as there are, unless they are too many."""
    share = min(1.0, (_MOST / math.prod(cells)) ** (1 / len(cells)))
    return tuple(max(2, int(share * n)) for n in cells)


@lru_cache(maxsize=64)
def _splines(given: int, asked: int) -> Array:
    """Interpolating splines through values at the centres of the given cells, shape (asked, given)."""
    from scipy.interpolate import make_interp_spline

    spline = make_interp_spline(_centres(given), np.eye(given), k=min(3, given - 1))
    return np.asarray(spline(_centres(asked)))


@lru_cache(maxsize=64)
def _overlaps(given: int, asked: int) -> Array:
    """Share of each asked cell that each given cell covers, shape (asked, given)."""
    old, new = np.linspace(0, 1, given + 1), np.linspace(0, 1, asked + 1)
    shared = np.minimum(old[1:], new[1:, None]) - np.maximum(old[:-1], new[:-1, None])
    return np.asarray(np.maximum(shared, 0) * asked)


def _centres(cells: int) -> Array:
    return np.asarray((np.arange(cells) + 0.5) / cells)
