"""The steady temperature field of a plate, by py-pde."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.simulators._versions import version
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr


Array = NDArray[np.float64]

# Relative residual of the linear system; 1e-12 leaves about 1e-9 K.
_RESIDUAL = 1e-12
# Conjugate gradients take about 4 iterations a cell of one axis.
_ITERATIONS_PER_CELL = 40


@runtime_checkable
class _Plate(Protocol):
    """A problem on a rectangle with given edge temperatures."""

    @property
    def edges(self) -> Mapping[str, Callable[[Array], Array]]: ...

    @property
    def domain(self) -> Domain: ...


@dataclass(frozen=True)
class LaplacePyPde(Simulator):
    """Solve T_xx + T_yy = 0 with the problem's edge temperatures on a grid of square cells (py-pde: Zwicker, 2020).

    py-pde's second-order Laplace operator with its boundary conditions; the linear system is solved by conjugate
    gradients. The field is that of py-pde's own ``solve_laplace_equation``, which spends most of its time on building a
    sparse matrix. It does not depend on the design: it is the whole plate, and the problem reads it at the design.

    Args:
        cells: Number of cells along each axis, from 8 to 2048.

    Raises:
        ValueError: a number of cells out of bounds.
    """

    cells: int = 128

    idempotent = True

    def __post_init__(self) -> None:
        if not 8 <= self.cells <= 2048:
            raise ValueError(
                f"The heat simulator's grid has {self.cells!r} cells along an axis: choose from 8 to 2048."
            )

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The field ``temperature`` (x, y) in K, at the cell centres, in m.

        Raises:
            ValueError: a problem without ``edges`` and ``domain``.
            RuntimeError: the linear system was not solved.
        """
        import xarray as xr

        if not isinstance(problem, _Plate):
            raise ValueError(
                f"The heat simulator cannot run {type(problem).__name__}, which has no `edges` (temperatures on the "
                "four edges) over a `domain`: use the problem heat, or another simulator."
            )
        field, centres = self._solve(problem)
        x, y = problem.domain.axes
        return xr.Dataset(
            {"temperature": (("x", "y"), field, {"units": "K"})},
            coords={
                "x": ("x", centres[0], {"units": x.unit}),
                "y": ("y", centres[1], {"units": y.unit}),
            },
            attrs={
                "mesh": f"{self.cells} x {self.cells} cells, values at their centres",
                "solver": f"py-pde {version('py-pde')} Laplace operator, conjugate gradients to {_RESIDUAL:g}",
            },
        )

    def _solve(self, plate: _Plate) -> tuple[Array, tuple[Array, Array]]:
        """Field (cells, cells), cell centres along x and y."""
        # Imported here: it takes most of a second, which only the process that simulates should pay.
        from pde.grids.cartesian import CartesianGrid
        from scipy.sparse.linalg import LinearOperator, cg

        grid = CartesianGrid(plate.domain.bounds.T.tolist(), self.cells)
        along_x, along_y = (np.array(centres, dtype=np.float64) for centres in grid.axes_coords)
        values = {edge: f(along_y if edge[0] == "x" else along_x) for edge, f in plate.edges.items()}
        conditions = {edge: {"value": value} for edge, value in values.items()}
        laplacian = grid.make_operator("laplace", conditions, backend="scipy")
        # The operator is affine: L(T) = K T + L(0), where L(0) carries the edges; -K is symmetric positive definite.
        edge_terms = laplacian(np.zeros(grid.shape)).copy()
        stiffness = LinearOperator(
            (edge_terms.size,) * 2,
            matvec=lambda T: (edge_terms - laplacian(T.reshape(grid.shape))).ravel(),
            dtype=np.float64,
        )
        solution, failed = cg(stiffness, edge_terms.ravel(), rtol=_RESIDUAL, maxiter=_ITERATIONS_PER_CELL * self.cells)
        if failed:
            raise RuntimeError(
                f"Conjugate gradients did not reach {_RESIDUAL:g} on {self.cells}^2 cells: check the edge temperatures."
            )
        return solution.reshape(grid.shape), (along_x, along_y)
