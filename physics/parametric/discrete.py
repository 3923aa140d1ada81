"""Discrete equations of a simulator's own mesh, symmetric and positive definite."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.parametric.statement import Numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Majorant:
    """A stiffness sum_q t_q(d) f_q that is convex in the design, strain by strain, and nowhere below the true one.

    A stiffness that is itself a polynomial of the design (proportional to a thickness, or to its cube) is its own. One
    term need not be convex, only the sum.

    Args:
        shapes: f, shape (Q, p).
        terms: Function from n designs to t, shape (n, Q).
    """

    shapes: Array
    terms: Callable[[Numbers], Array]


@dataclass(frozen=True, eq=False)
class DiscreteSystem:
    """The equations A(d) u = b(d) of n designs, with A = B^T diag(s) B.

    B takes the unknowns to strains (curvatures of a beam, differences of temperature), s holds the stiffness of each,
    and b the loads. A is symmetric, and positive definite if the columns of B are independent and s > 0.

    Args:
        strains: B, shape (p, N).
        stiffness: s > 0, shape (n or 1, p).
        loads: b, shape (n or 1, N).
        field: Name of the stated field whose cells are the unknowns.
        free: Numbers of the cells, in the order of the field's, that are unknown, shape (N,); the others are 0.
        compliance: True if the objective is b . u to rounding, the work of the loads.
        above: Functions that are convex in the design and nowhere below s; None where none are stated. With them the
            loads are the same for all designs.

    Raises:
        ValueError: shapes disagree, ``strains`` is no sparse matrix, a number is not finite, a stiffness is not
            positive, ``free`` are no numbers of cells, or the loads of an ``above`` differ.
    """

    strains: "csr_matrix"
    stiffness: Array
    loads: Array
    field: str
    free: NDArray[np.intp]
    compliance: bool = False
    above: Majorant | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.strains, "tocsc"):
            raise ValueError(f"strains is a {type(self.strains).__name__}: give a sparse matrix of scipy, csr_matrix.")
        p, size = self.strains.shape
        if self.stiffness.shape[1:] != (p,) or self.loads.shape[1:] != (size,) or self.free.shape != (size,):
            raise ValueError(
                f"strains {self.strains.shape}, stiffness {self.stiffness.shape}, loads {self.loads.shape} and free "
                f"{self.free.shape} do not fit: give strains (p, N), stiffness (n, p), loads (n, N) and free (N,)."
            )
        shapes = np.empty(0) if self.above is None else self.above.shapes
        for name, values in (("strains", self.strains.tocsr().data), ("loads", self.loads), ("shapes", shapes)):
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{name} has a number that is not finite: all must be.")
        if self.free.dtype.kind not in "iu" or self.free.min() < 0:
            raise ValueError(f"free has the type {self.free.dtype} and the least {self.free.min()}: give cells from 0.")
        if not np.all(self.stiffness > 0):
            raise ValueError(f"A stiffness is {self.stiffness.min()}: all must be positive for every design.")
        if self.above is not None and (len(self.loads) > 1 or self.above.shapes.shape[1] != p):
            raise ValueError(
                f"loads {self.loads.shape} and shapes {self.above.shapes.shape} do not fit an `above`: give loads "
                "(1, N) and shapes (Q, p)."
            )

    def matrix(self, design: int) -> "csr_matrix":
        """A of one of the designs, shape (N, N)."""
        from scipy.sparse import diags

        row = self.stiffness[design if len(self.stiffness) > 1 else 0]
        return (self.strains.T @ diags(row) @ self.strains).tocsr()
