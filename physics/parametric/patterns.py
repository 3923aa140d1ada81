"""Square matrices whose entries are coefficients times weights at fixed places, solved for many designs."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import SuperLU

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Unknowns up to which dense matrices of many designs are solved together.
_DENSE = 200
# Numbers of dense matrices that are alive at once.
_BLOCK = 4_000_000
# Unknowns up to which the matrices of all steps of time are kept factored, and the number that are kept.
_SMALL, _STEPS = 1000, 256
# A pivot below this share of the largest is rounding.
_ROUNDING = 1e-15
# A condition number above which a solution has no digits to trust.
_LOST = 1e13


@dataclass(frozen=True, eq=False)
class Pattern:
    """Places of the entries of a square matrix; those at one place add up.

    Args:
        size: Number of rows and of columns.
        rows: Row of each entry, shape (entries,).
        columns: Column of each entry, shape (entries,).
        weights: Factor of each entry, shape (entries,).
        cells: Cell of the coefficient by which each entry is multiplied, among those of all terms, or -1 for none.
    """

    size: int
    rows: Indices
    columns: Indices
    weights: Array
    cells: Indices

    def values(self, coefficients: Array) -> Array:
        """Entries (n, entries) for coefficients (n, terms * N)."""
        alone = np.ones((len(coefficients), 1))
        return np.hstack([coefficients, alone])[:, self.cells] * self.weights

    def solve(self, coefficients: Array, right: Array) -> Array:
        """Solutions (n, size) for coefficients (n or 1, terms * N) and right-hand sides (n or 1, size).

        Raises:
            ValueError: a matrix is singular.
        """
        if len(coefficients) == 1:
            factors = _few_factors if self.size > _SMALL else _many_factors
            return np.asarray(factors(self, coefficients.tobytes()).solve(right.T.copy()).T)
        values = self.values(coefficients)
        right = np.broadcast_to(right, (len(values), self.size))
        if self.size > _DENSE:
            return np.array([self.factored(each).solve(b) for each, b in zip(values, right, strict=True)])
        self.factored(values[0])  # refuses what has no unique solution
        solved = np.empty(right.shape)
        step = max(1, _BLOCK // self.size**2)
        for first in range(0, len(right), step):
            some = slice(first, first + step)
            matrices = (values[some] @ self._dense).reshape(-1, self.size, self.size)
            solved[some] = np.linalg.solve(matrices, right[some, :, None])[..., 0]
        return solved

    def factored(self, values: Array) -> "SuperLU":
        """Factors of the matrix of entries (entries,).

        Raises:
            ValueError: it is singular.
        """
        from scipy.sparse import csc_matrix
        from scipy.sparse.linalg import splu

        try:
            factors = splu(csc_matrix((values, (self.rows, self.columns)), (self.size, self.size)))
            pivots = np.abs(factors.U.diagonal())
            # Where there is nearly no solution, that for a right-hand side of no order is beyond all bounds.
            probe = factors.solve(self._probe)
            unbounded = not np.abs(probe).max() * np.abs(values).max() < _LOST
            singular = unbounded or not pivots.min() > _ROUNDING * pivots.max()
        except RuntimeError:
            singular = True
        if singular:
            raise ValueError(
                "The stated equation has no unique solution on its grid: give conditions that fix its fields, such as "
                "a value on one side."
            )
        return factors

    @cached_property
    def _probe(self) -> Array:
        """Right-hand side of no order, shape (size,)."""
        return 1 + np.random.default_rng(0).standard_normal(self.size)

    @cached_property
    def _dense(self) -> "csr_matrix":
        """Entries to dense matrices, row by row, shape (entries, size^2)."""
        from scipy.sparse import csr_matrix

        entries = len(self.rows)
        places = self.rows * self.size + self.columns
        return csr_matrix((np.ones(entries), (np.arange(entries), places)), (entries, self.size**2))


def _factors(pattern: Pattern, coefficients: bytes) -> "SuperLU":
    """Factors of a matrix that many right-hand sides have in common."""
    return pattern.factored(pattern.values(np.frombuffer(coefficients)[None])[0])


_few_factors, _many_factors = lru_cache(maxsize=8)(_factors), lru_cache(maxsize=_STEPS)(_factors)
