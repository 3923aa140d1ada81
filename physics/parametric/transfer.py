"""Fields carried from one grid of equal cells over a domain to another: finer by interpolation, coarser by averages."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def interpolated(values: Array, cells: tuple[int, ...]) -> Array:
    """Fields (n, *coarse cells) at the centres of so many cells along each axis, by cubic splines; (n, *cells).

    Beyond the outermost centres the last pieces go on. An axis of fewer than four cells has splines of lower degree.
    """
    return _carried(values, cells, _splines)


def averaged(values: Array, cells: tuple[int, ...]) -> Array:
    """Means of fields (n, *fine cells) over each of fewer cells, by the lengths that overlap; shape (n, *cells)."""
    return _carried(values, cells, _overlaps)


def _carried(values: Array, cells: tuple[int, ...], matrix: Callable[[int, int], Array]) -> Array:
    for axis, (given, asked) in enumerate(zip(values.shape[1:], cells, strict=True), start=1):
        if given != asked:
            values = np.moveaxis(np.tensordot(values, matrix(given, asked), (axis, 1)), -1, axis)
    return values


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
