"""Fields carried from a grid of equal cells over a domain to another, or to single places.

To finer cells and to places they are interpolated, on coarser cells they are means. Where a mask leaves cells out, the
field is first continued into them as smoothly as its third differences allow; means are those over the part inside.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Fields

if TYPE_CHECKING:
    import xarray as xr
    from scipy.sparse import csr_array, csr_matrix
    from scipy.sparse.linalg import SuperLU

Array = NDArray[np.float64]
MANY = 10_000
"""Cells at most of a grid on which many fields are kept."""
# Cells at most of a grid on which fields are read.
_READ = 40_000
# Numbers at most of a matrix of means that is kept with all its zeros: that of 12,500 cells on 10,000 would take 1 GB.
_WHOLE = 4_000_000
# Weight of first differences where a field is continued: third differences alone may leave corners free.
_FLAT = 1e-4
# A share of a cell below this one is rounding.
_ROUNDING = 1e-9


def on_cells(domain: Domain, values: Array, cells: tuple[int, ...], repeats: tuple[bool, ...]) -> Array:
    """Fields (n, *given cells) over a domain on so many cells along each axis, shape (n, *cells); see ``carried``.

    Where the domain has a mask, they are NaN at the cells whose centres it leaves out, and so are the given fields.

    Raises:
        ValueError: the mask leaves none of the cells.
    """
    if domain.mask is None or values.shape[1:] == cells:
        return carried(values, cells, repeats)
    given = Grid(domain, values.shape[1:])
    few = tuple(map(min, given.cells, cells))
    known = given.inside.reshape(given.cells)
    share = carried(known[None].astype(float), few, repeats)[0]
    means = carried(np.where(known, values, 0.0), few, repeats)
    means = np.divide(means, share, out=np.full_like(means, np.nan), where=share > _ROUNDING)
    asked = Grid(domain, cells)
    return asked.boxed(asked.picked(carried(_continued(means, share > _ROUNDING, repeats), cells, repeats)))


def at_points(domain: Domain, values: Array, shares: Array, repeats: tuple[bool, ...]) -> Array:
    """Fields (n, *cells) over a domain at places (p, d) inside it, as shares of its box; see ``at_places``."""
    if domain.mask is not None:
        grid = Grid(domain, values.shape[1:])
        values = _continued(values, grid.inside.reshape(grid.cells), repeats)
    return at_places(values, shares, repeats)


def carried(values: Array, cells: tuple[int, ...], repeats: tuple[bool, ...]) -> Array:
    """Fields (n, *given cells) on so many cells along each axis, shape (n, *cells).

    Along an axis of more cells than were given they are interpolated by cubic splines (of lower degree through fewer
    than four cells). Beyond the outermost centres these begin again where the field ``repeats``, one for each axis, and
    else their last pieces go on. Along an axis of fewer cells they are means over each, by the lengths that overlap.
    """
    for axis, (given, asked, around) in enumerate(zip(values.shape[1:], cells, repeats, strict=True), start=1):
        if given != asked:
            matrix = _splines(given, asked, around) if given < asked else _overlaps(given, asked)
            values = _along(values, matrix, axis)
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


def fewer(cells: tuple[int, ...], most: int = MANY) -> tuple[int, ...]:
    """Cells along each axis on which many fields are kept: as many as there are, unless they are more than ``most``."""
    order = sorted(range(len(cells)), key=cells.__getitem__)  # what a short axis keeps is told before the long ones
    kept, room = [0] * len(cells), float(most)
    for done, axis in enumerate(order):
        wanted = math.prod(cells[k] for k in order[done:])
        share = min(1.0, (room / wanted) ** (1 / (len(cells) - done)))
        kept[axis] = max(min(2, cells[axis]), int(share * cells[axis]))
        room /= kept[axis]
    return tuple(kept)


def _along(values: Array, matrix: "Array | csr_array", axis: int) -> Array:
    """A matrix (asked, given) times values (..., given, ...) along an axis, their order in memory kept."""
    before, after, asked = values.shape[:axis], values.shape[axis + 1 :], matrix.shape[0]
    if not after:
        return np.asarray((values.reshape(-1, values.shape[axis]) @ matrix.T).reshape(*before, asked))
    parts = values.reshape(math.prod(before), values.shape[axis], math.prod(after))
    found = matrix @ parts if isinstance(matrix, np.ndarray) else np.stack([matrix @ part for part in parts])
    return np.asarray(found.reshape(*before, asked, *after))


def _continued(values: Array, known: NDArray[np.bool_], repeats: tuple[bool, ...]) -> Array:
    """Fields (n, *cells) with values at the other cells than those that are known (*cells)."""
    if known.all():
        return values
    flat = values.reshape(len(values), -1)
    inside, (factors, pull) = known.ravel(), _continuation(known.tobytes(), known.shape, repeats)
    found = flat.copy()
    found[:, ~inside] = factors.solve(np.asarray(pull @ flat[:, inside].T)).T
    return found.reshape(values.shape)


@lru_cache(maxsize=16)
def _continuation(known: bytes, cells: tuple[int, ...], repeats: tuple[bool, ...]) -> "tuple[SuperLU, csr_matrix]":
    """Factors of the matrix (m, m), and the matrix (m, N), whose solutions continue N known values to m others.

    The sum of squares of all third differences that reach one of the others is least.
    """
    from scipy.sparse import csr_matrix, vstack
    from scipy.sparse.linalg import splu

    number, parts = np.arange(math.prod(cells)).reshape(cells), []
    for axis, around in enumerate(repeats):
        for weights in ((1.0, -3.0, 3.0, -1.0), (-_FLAT, _FLAT)):
            reach, n = len(weights), cells[axis]
            steps = np.stack([np.roll(number, -by, axis) for by in range(reach)], axis=-1)
            some = np.moveaxis(steps, axis, 0)[: n if around else max(0, n - reach + 1)].reshape(-1, reach)
            rows = np.repeat(np.arange(len(some)), reach)
            parts.append(csr_matrix((np.tile(weights, len(some)), (rows, some.ravel())), (len(some), number.size)))
    differences, inside = vstack(parts).tocsc(), np.frombuffer(known, dtype=bool)
    other = differences[:, np.flatnonzero(~inside)]
    return splu((other.T @ other).tocsc()), -(other.T @ differences[:, np.flatnonzero(inside)]).tocsr()


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
def _overlaps(given: int, asked: int) -> "Array | csr_array":
    """Share of each asked cell that each given cell covers, shape (asked, given); sparse where it is large."""
    from scipy.sparse import csr_array

    old, new = np.linspace(0, 1, given + 1), np.linspace(0, 1, asked + 1)
    first = np.maximum(np.searchsorted(old, new[:-1]) - 1, 0)
    rows = np.repeat(np.arange(asked), reach := given // asked + 3)
    columns = np.minimum(first[:, None] + np.arange(reach), given - 1)
    columns, kept = columns.ravel(), (np.diff(columns, prepend=-1) > 0).ravel()
    rows, columns = rows[kept], columns[kept]
    shared = np.minimum(old[columns + 1], new[rows + 1]) - np.maximum(old[columns], new[rows])
    found = csr_array((np.maximum(shared, 0) * asked, (rows, columns)), (asked, given))
    return found if asked * given > _WHOLE else np.asarray(found.toarray())


def _centres(cells: int) -> Array:
    return np.asarray((np.arange(cells) + 0.5) / cells)


def stated_fields(stated: Fields, fields: "xr.Dataset") -> tuple[dict[str, Array], dict[str, Array]]:
    """Stated fields of one simulation, each (1, *cells), and the centres of its cells along each axis, by name.

    What a simulation has at cells that the domain's mask leaves out is not looked at: they are NaN.

    Raises:
        ValueError: it has none of them, its values are complex, or its places are not the centres of equal cells over
            the domain.
    """
    names = stated.domain.names
    given = [each.name for each in stated.fields if each.name in fields and set(fields[each.name].dims) == set(names)]
    if not given:
        raise missing_field(stated.fields[0].name, stated, fields)
    for name in given:
        if fields[name].dtype.kind not in "fiu":
            kind = {"c": "complex", "b": "truth"}.get(fields[name].dtype.kind, "other")
            raise ValueError(f"The field {name!r} of the simulation has {kind} values: give real ones, of a real type.")
    grid = Grid(stated.domain, tuple(fields.sizes[name] for name in names))
    for axis, spacing in zip(names, grid.spacing, strict=True):
        if axis not in fields.coords or not np.allclose(fields[axis], grid.centres[axis], rtol=0, atol=1e-6 * spacing):
            raise ValueError(
                f"The places along {axis!r} in the simulation are not the centres of equal cells over the domain: "
                "interpolate the fields to such cells, or override evaluate() in the problem."
            )
    arrays = {name: np.asarray(fields[name].transpose(*names).values[None], dtype=np.float64) for name in given}
    if stated.domain.mask is not None:
        arrays = {name: grid.boxed(grid.picked(values)) for name, values in arrays.items()}
    return arrays, dict(grid.centres)


def missing_field(name: str, stated: Fields, fields: "xr.Dataset") -> ValueError:
    """Error for a field that a simulation did not give with the dimensions of the statement."""
    axes = ", ".join(stated.domain.names)
    given = ", ".join(f"{key} ({', '.join(map(str, each.dims))})" for key, each in fields.data_vars.items())
    return ValueError(
        f"The simulation gave no field {name!r} with the dimensions {axes}; it gave {given or 'nothing'}. Let it write "
        "that field, or the outputs themselves as scalar variables."
    )


def scalar(name: str, fields: "xr.Dataset") -> float:
    """A single number that a simulation gave, by its name.

    Raises:
        ValueError: it gave none, or the variable has dimensions.
    """
    if name not in fields:
        raise ValueError(
            f"The simulation gave no {name!r} (it gave {', '.join(map(str, fields.data_vars)) or 'nothing'}): let it "
            f"write a scalar variable {name!r}, or override evaluate() in the problem."
        )
    if fields[name].ndim:
        raise ValueError(
            f"{name!r} has the dimensions {fields[name].dims}, not a single number: override evaluate() in the problem "
            "to read the output from the field."
        )
    return float(fields[name])
