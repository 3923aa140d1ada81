"""Fields carried from a grid of equal cells over a domain to another, or to single places.

To finer cells and to places they are interpolated, on coarser cells they are means.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Cells at most of a grid on which fields are read, and of one on which many fields are kept.
_READ, _KEPT = 40_000, 10_000


def carried(values: Array, cells: tuple[int, ...], repeats: tuple[bool, ...]) -> Array:
    """Fields (n, *given cells) on so many cells along each axis, shape (n, *cells).

    Along an axis of more cells than were given they are interpolated by cubic splines (of lower degree through fewer
    than four cells). Beyond the outermost centres these begin again where the field ``repeats``, one for each axis, and
    else their last pieces go on. Along an axis of fewer cells they are means over each, by the lengths that overlap.
    """
    for axis, (given, asked, around) in enumerate(zip(values.shape[1:], cells, repeats, strict=True), start=1):
        if given != asked:
            matrix = _splines(given, asked, around) if given < asked else _overlaps(given, asked)
            values = np.moveaxis(np.tensordot(values, matrix, (axis, 1)), -1, axis)
    return values


def at_places(values: Array, shares: Array, repeats: tuple[bool, ...]) -> Array:
    """Fields (n, *cells) at places (p, d), as shares of the domain from 0 to 1, by splines as above; shape (n, p)."""
    matrices = [
        _interpolating(given, shares[:, axis], around)
        for axis, (given, around) in enumerate(zip(values.shape[1:], repeats, strict=True))
    ]
    found = np.tensordot(values, matrices[-1], (values.ndim - 1, 1))
    for matrix in reversed(matrices[:-1]):
        found = np.einsum("...cp,pc->...p", found, matrix)
    return np.asarray(found)


def finer(cells: tuple[int, ...]) -> tuple[int, ...]:
    """Cells along each axis on which the fields of a coarse grid are read: four for each, unless they are too many."""
    factor = int((_READ / math.prod(cells)) ** (1 / len(cells)))
    return tuple(max(1, min(4, factor)) * n for n in cells)


def fewer(cells: tuple[int, ...], most: int = _KEPT) -> tuple[int, ...]:
    """Cells along each axis on which many fields are kept: as many as there are, unless they are more than ``most``."""
    order = sorted(range(len(cells)), key=cells.__getitem__)  # what a short axis keeps is told before the long ones
    kept, room = [0] * len(cells), float(most)
    for done, axis in enumerate(order):
        wanted = math.prod(cells[k] for k in order[done:])
        share = min(1.0, (room / wanted) ** (1 / (len(cells) - done)))
        kept[axis] = max(min(2, cells[axis]), int(share * cells[axis]))
        room /= kept[axis]
    return tuple(kept)


@lru_cache(maxsize=64)
def _splines(given: int, asked: int, around: bool) -> Array:
    """Interpolating splines from the centres of the given cells to those of the asked ones, shape (asked, given)."""
    return _interpolating(given, _centres(asked), around)


def _interpolating(given: int, wanted: Array, around: bool) -> Array:
    """Splines through values at the centres of the given cells, at places (p,) from 0 to 1, shape (p, given)."""
    from scipy.interpolate import make_interp_spline

    known, values = _centres(given), np.eye(given)
    if not around:
        return np.asarray(make_interp_spline(known, values, k=min(3, given - 1))(wanted))
    spline = make_interp_spline(np.append(known, 1 + known[0]), np.vstack([values, values[:1]]), bc_type="periodic")
    return np.asarray(spline(wanted))


@lru_cache(maxsize=64)
def _overlaps(given: int, asked: int) -> Array:
    """Share of each asked cell that each given cell covers, shape (asked, given)."""
    old, new = np.linspace(0, 1, given + 1), np.linspace(0, 1, asked + 1)
    shared = np.minimum(old[1:], new[1:, None]) - np.maximum(old[:-1], new[:-1, None])
    return np.asarray(np.maximum(shared, 0) * asked)


def _centres(cells: int) -> Array:
    return np.asarray((np.arange(cells) + 0.5) / cells)
