"""Evidence for a stated equation: how nearly the fields of a simulation satisfy it."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from fieldcraft.physics.parametric.discretisation import Discretisation, Term, stencil
from fieldcraft.physics.parametric.grid import Array, Flags, Grid
from fieldcraft.physics.parametric.nonlinear import State
from fieldcraft.physics.parametric.statement import Numbers, ParametricEquation


def imbalance(stated: ParametricEquation, design: Numbers, fields: Mapping[str, Array]) -> Array:
    """Relative residual of one design's fields in each stated equation, r_e = |A_e u - b_e| / size_e.

    A is the equation in second-order central differences on the cells of the fields, also in time, and b its right-hand
    side. The size is the largest norm among b_e and the terms of A_e u, for b_e is 0 in some equations. Norms are over
    the cells that have neighbours inside the domain along every axis, so that the conditions on its boundary do not
    enter. What remains for the right equation falls by four where cells are halved; a coefficient that is wrong by a
    share leaves nearly that share of its term. Noise is amplified by 1 / h^2: of noisy fields this says nothing.

    Args:
        stated: The statement, with the coefficients' values.
        design: Values of the variables, in their units, numbers.
        fields: Every stated field at the centres of equal cells over the domain, each (*cells), by name.

    Returns:
        Relative residuals, shape (equations,), pure numbers.

    Raises:
        ValueError: see ``finite_differences.solved``; fewer than three cells along an axis that is not periodic; or a
            mask that leaves no cell between neighbours.
    """
    values = [np.asarray(fields[field.name], dtype=np.float64) for field in stated.fields]
    grid = Grid(stated.domain, values[0].shape)
    thin = [name for name, n in zip(stated.domain.names, grid.cells, strict=True) if n < 3]
    if set(thin) - set(stated.periodic):
        raise ValueError(
            f"The fields have {' x '.join(map(str, grid.cells))} cells, too few along {', '.join(thin)} to tell how "
            "nearly they satisfy the equation: give at least three along each axis."
        )
    times = None if stated.time is None else grid.centres[stated.time]
    on = Discretisation.of(stated, grid.cells)
    terms, right = on.assembled(stated.of(design), times)
    inner = inner_cells(grid, stated.repeats)
    if not inner.any():
        raise ValueError(
            f"Of {' x '.join(map(str, grid.cells))} cells the domain's mask leaves none between two others along every "
            "axis, where fields could be put into the equation: give more cells."
        )

    def placed(some: Array) -> Array:
        """Numbers (steps or 1, N) at the inner cells."""
        whole = np.broadcast_to(some.T, (on.cells, some.shape[0] if times is None else len(times)))
        return np.asarray(grid.boxed(whole.reshape(-1))[inner])

    rows = [[-placed(right[0, :, e * on.cells : (e + 1) * on.cells])] for e in range(len(values))]
    for term, at in terms:
        rows[term.equation].append(placed(at[0]) * _derivative(values[term.field], grid, term)[inner])
    states = tuple(State(grid.picked(each), partial(_slope, each, grid)) for each in values)
    points = grid.points[grid.inside]
    for row, found in zip(rows, stated.bound(design)(points, states), strict=False):
        if found is not None:
            row.append(grid.boxed(np.broadcast_to(found.value, len(points)))[inner])
    return np.array([np.linalg.norm(sum(row)) / (max(map(np.linalg.norm, row)) or 1.0) for row in rows])


def _slope(values: Array, grid: Grid, axis: int) -> Array:
    """Central difference of a field (*cells) along an axis, at the N cells inside, shape (N,)."""
    return grid.picked(_derivative(values, grid, Term(0, 0, axis, 1)))


def inner_cells(grid: Grid, repeats: tuple[bool, ...]) -> Flags:
    """True for the cells inside between two others inside along every axis, shape (*cells)."""
    inside = grid.inside.reshape(grid.cells)
    found = inside.copy()
    for axis, around in enumerate(repeats):
        found &= np.roll(inside, 1, axis) & np.roll(inside, -1, axis)
        if not around:
            np.moveaxis(found, axis, 0)[[0, -1]] = False
    return found


def _derivative(values: Array, grid: Grid, term: Term) -> Array:
    """Central difference of a field (*cells), as if it were periodic along every axis."""
    found = (weight * np.roll(values, -by, term.axis) for by, weight in stencil(grid.spacing[term.axis], term.order))
    return np.asarray(sum(found))
