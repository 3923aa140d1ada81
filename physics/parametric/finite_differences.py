"""Linear equations on a grid, by second-order central differences (LeVeque, 2007, chapters 2 and 3).

The values at the centres of the cells are unknown, and so are those in one ring of ghost cells beyond the boundary.
Each cell gives one row for each equation, and each cell at a side one row for each condition there: with the ghost u_g
beyond the cell u_1 at the distance h, a (u_g + u_1) / 2 + b (u_g - u_1) / h = g. The rows of all fields are solved
together, so that one end of a field may have two conditions and the other none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.operators import Coefficient, LinearEquation, LinearSystem
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Condition, Numbers, ParametricEquation

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Unknowns up to which dense matrices of many designs are solved together.
_DENSE = 200
# Numbers of dense matrices that are alive at once.
_BLOCK = 4_000_000
# A pivot below this share of the largest is rounding.
_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class _Matrix:
    """A matrix for each of n designs, by its entries; those at one place add up.

    Args:
        size: Number of rows and of columns.
        rows: Row of each entry, shape (entries,).
        columns: Column of each entry, shape (entries,).
        values: Values, shape (n, entries); n is 1 if all designs have the same.
    """

    size: int
    rows: Indices
    columns: Indices
    values: Array

    @classmethod
    def of(cls, size: int, parts: Sequence[tuple[Indices, Indices, Array]]) -> "_Matrix":
        """The matrix of these rows, columns (entries,) and values (n or 1, entries)."""
        rows, columns, values = zip(*parts, strict=True)
        n = max(len(each) for each in values)
        together = np.hstack([np.broadcast_to(each, (n, each.shape[1])) for each in values])
        return cls(size, np.concatenate(rows), np.concatenate(columns), together)

    def solve(self, right: Array) -> Array:
        """Solutions (n, size) for right-hand sides (n or 1, size).

        Raises:
            ValueError: a matrix is singular.
        """
        if len(self.values) == 1:
            places = self.rows.tobytes(), self.columns.tobytes()
            return np.asarray(_factors(self.size, *places, self.values.tobytes()).solve(right.T.copy()).T)
        right = np.broadcast_to(right, (len(self.values), self.size))
        return self._many_small(right) if self.size <= _DENSE else self._one_by_one(right)

    def _one_by_one(self, right: Array) -> Array:
        each = zip(self.values, right, strict=True)
        return np.array([_factored(self.size, self.rows, self.columns, values).solve(b) for values, b in each])

    def _many_small(self, right: Array) -> Array:
        from scipy.sparse import csr_matrix

        _factored(self.size, self.rows, self.columns, self.values[0])  # refuses what has no unique solution
        entries = len(self.rows)
        shape = (entries, self.size**2)
        dense = csr_matrix((np.ones(entries), (np.arange(entries), self.rows * self.size + self.columns)), shape)
        solved = np.empty(right.shape)
        step = max(1, _BLOCK // self.size**2)
        for first in range(0, len(right), step):
            some = slice(first, first + step)
            matrices = (self.values[some] @ dense).reshape(-1, self.size, self.size)
            solved[some] = np.linalg.solve(matrices, right[some, :, None])[..., 0]
        return solved


@dataclass(frozen=True)
class Discretisation:
    """Central differences of linear equations for some fields on a grid.

    Args:
        grid: The grid of N cells.
        fields: Number of fields.
        conditions: Conditions with the number of their field.
    """

    grid: Grid
    fields: int
    conditions: tuple[tuple[int, Condition], ...]

    @classmethod
    def of(cls, stated: ParametricEquation, cells: tuple[int, ...]) -> "Discretisation":
        """Discretisation of a statement on so many cells along each axis."""
        numbers = {field.name: number for number, field in enumerate(stated.fields)}
        conditions = tuple((numbers[condition.field], condition) for condition in stated.conditions)
        return _discretisation(Grid(stated.domain, cells), len(stated.fields), conditions)

    def solve(self, equation: LinearEquation | LinearSystem) -> Array:
        """Values of the fields at the cells' centres, shape (n, fields, N); n is 1 if all designs have the same.

        Raises:
            ValueError: mixed derivatives, another number of equations than of fields, a coefficient that is not finite,
                or equations without a unique solution.
        """
        blocks = equation.blocks if isinstance(equation, LinearSystem) else ((equation,),)
        if len(blocks) != self.fields or len(blocks[0]) != self.fields:
            raise ValueError(
                f"There are {len(blocks)} equations of {len(blocks[0])} fields, and {self.fields} fields are stated: "
                "give one equation for each field."
            )
        right = self._right(equation)
        solutions = self._left(blocks).solve(right)
        return solutions.reshape(len(solutions), self.fields, -1)[:, :, : self.cells]

    @property
    def cells(self) -> int:
        """Number N of cells."""
        return len(self.grid.points)

    @cached_property
    def _padded(self) -> Indices:
        """Numbers of the unknowns of one field, ghosts after cells, on the grid with its ring; corners have none."""
        shape = tuple(n + 2 for n in self.grid.cells)
        edge = sum(
            np.isin(np.arange(n), (0, n - 1)).reshape([-1 if i == axis else 1 for i in range(len(shape))]).astype(int)
            for axis, n in enumerate(shape)
        ) + np.zeros(shape, dtype=int)
        padded = np.full(shape, -1)
        padded[edge == 0] = np.arange(self.cells)
        padded[edge == 1] = self.cells + np.arange(np.count_nonzero(edge == 1))
        return padded

    @property
    def _unknowns(self) -> int:
        """Unknowns of one field."""
        return int(self._padded.max()) + 1

    def _shifted(self, axis: int, by: int) -> Indices:
        """Numbers of the unknowns beside each cell along an axis, shape (N,)."""
        inner = [slice(1, -1)] * len(self.grid.cells)
        inner[axis] = slice(1 + by, self._padded.shape[axis] - 1 + by)
        return self._padded[tuple(inner)].ravel()

    def _stencil(self, axis: int | None, order: int) -> list[tuple[Indices, float]]:
        """Unknowns (N,) and weights of a derivative of one order, 0 to 2, along an axis."""
        if axis is None:
            return [(self._shifted(0, 0), 1.0)]
        h = self.grid.spacing[axis]
        weights = {-1: -0.5 / h, 1: 0.5 / h} if order == 1 else {-1: 1 / h**2, 0: -2 / h**2, 1: 1 / h**2}
        return [(self._shifted(axis, by), weight) for by, weight in weights.items()]

    def _left(self, blocks: tuple[tuple[LinearEquation | None, ...], ...]) -> _Matrix:
        """The rows of the equations, and after them those of the conditions."""
        parts = []
        cells = np.arange(self.cells)
        for e, line in enumerate(blocks):
            for f, block in enumerate(line):
                for coefficient, axis, order in () if block is None else _terms(block):
                    at = self._at(coefficient)
                    for beside, weight in self._stencil(axis, order):
                        parts.append((e * self.cells + cells, f * self._unknowns + beside, weight * at))
        return _Matrix.of(self.fields * self._unknowns, [*parts, *self._boundary])

    @cached_property
    def _boundary(self) -> list[tuple[Indices, Indices, Array]]:
        """Rows, columns and values (1, entries) of the conditions."""
        found, first = [], self.fields * self.cells
        for field, condition in self.conditions:
            axis = self.grid.domain.names.index(condition.axis)
            ghosts, beside = (self._layer(axis, at) for at in ((0, 1) if condition.end == "low" else (-1, -2)))
            rows = first + np.arange(len(ghosts))
            first += len(ghosts)
            across = condition.slope / self.grid.spacing[axis]
            for unknowns, weight in ((ghosts, condition.value / 2 + across), (beside, condition.value / 2 - across)):
                found.append((rows, field * self._unknowns + unknowns, np.full((1, len(rows)), weight)))
        return found

    def _layer(self, axis: int, at: int) -> Indices:
        """Numbers of the unknowns of one field in a layer across an axis, its rim left out."""
        inner: list[slice | int] = [slice(1, -1)] * len(self.grid.cells)
        inner[axis] = at
        return self._padded[tuple(inner)].ravel()

    def _right(self, equation: LinearEquation | LinearSystem) -> Array:
        """Right-hand sides, shape (n, unknowns of all fields), n = 1 if they are the same for all designs."""
        points = self.grid.points
        sources = equation.sources(points) if isinstance(equation, LinearSystem) else (equation.source(points),)
        given = [_finite(np.atleast_2d(source)) for source in sources]
        n = max(len(each) for each in given)
        side = self.cells * len(given)
        beyond = np.concatenate([_given(self.grid, condition) for _, condition in self.conditions])
        right = np.empty((n, side + len(beyond)))
        right[:, side:] = beyond
        for e, each in enumerate(given):
            right[:, e * self.cells : (e + 1) * self.cells] = each
        return right

    def _at(self, coefficient: Coefficient) -> Array:
        """A coefficient at the cells, shape (n, N), n = 1 if it is the same for all designs."""
        found = coefficient(self.grid.points) if callable(coefficient) else coefficient
        return _finite(np.broadcast_to(np.atleast_2d(found), (len(np.atleast_2d(found)), self.cells)))


def solved(stated: ParametricEquation, designs: Numbers, cells: tuple[int, ...]) -> dict[str, Array]:
    """Fields of n designs at the centres of so many cells along each axis, each (n, *cells), by name.

    Args:
        stated: The statement.
        designs: Values of each variable, numbers or (n, 1).
        cells: Number of cells along each axis.

    Raises:
        ValueError: see ``Discretisation.solve``.
    """
    n = max((len(np.atleast_2d(value)) for value in designs.values()), default=1)
    found = Discretisation.of(stated, cells).solve(stated.equation(designs))
    whole = np.broadcast_to(found, (n, *found.shape[1:]))
    return {field.name: whole[:, i].reshape(n, *cells) for i, field in enumerate(stated.fields)}


def _given(grid: Grid, condition: Condition) -> Array:
    """Right-hand side of a condition at the faces of its side, shape (faces,)."""
    points, right = grid.side(condition.axis, condition.end), condition.right
    return _finite(np.broadcast_to(right(points) if callable(right) else right, len(points)))


def _terms(block: LinearEquation) -> Iterator[tuple[Coefficient, int | None, int]]:
    """Coefficients of a block that do not vanish, with the axis and the order of their derivative."""
    found: list[tuple[Coefficient, int | None, int]] = [(block.zeroth, None, 0)]
    found += [(b, axis, 1) for axis, b in enumerate(block.first)]
    found += [(row[axis], axis, 2) for axis, row in enumerate(block.second)]
    mixed = [a for i, row in enumerate(block.second) for j, a in enumerate(row) if i != j]
    if any(callable(a) or a != 0 for a in mixed):
        raise ValueError(
            "An equation has mixed second derivatives, for which the finite differences here have no stencil: state it "
            "along its own axes, or give the problem an `emulate` of its own."
        )
    return (term for term in found if callable(term[0]) or term[0] != 0)


def _finite(values: Any) -> Array:
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        bad = found[~np.isfinite(found)].flat[0]
        raise ValueError(
            f"A coefficient or the right-hand side of the stated equation is {bad} at a cell: it must be finite for "
            "every design of the space."
        )
    return found


def _factored(size: int, rows: Indices, columns: Indices, values: Array) -> "SuperLU":
    """Factors of one matrix.

    Raises:
        ValueError: it is singular.
    """
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import splu

    try:
        factors = splu(csc_matrix((values, (rows, columns)), (size, size)))
        pivots = np.abs(factors.U.diagonal())
        singular = not pivots.min() > _ROUNDING * pivots.max()
    except RuntimeError:
        singular = True
    if singular:
        raise ValueError(
            "The stated equation has no unique solution on its grid: give conditions that fix its fields, such as a "
            "value on one side."
        )
    return factors


@lru_cache(maxsize=8)
def _factors(size: int, rows: bytes, columns: bytes, values: bytes) -> "SuperLU":
    row, column = (np.frombuffer(each, dtype=np.intp) for each in (rows, columns))
    return _factored(size, row, column, np.frombuffer(values))


@lru_cache(maxsize=16)
def _discretisation(grid: Grid, fields: int, conditions: tuple[tuple[int, Condition], ...]) -> Discretisation:
    """A discretisation whose stencils a process computes once."""
    return Discretisation(grid, fields, conditions)
