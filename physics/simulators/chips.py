"""The steady temperature of a heated plate, by findiff's operators and a sparse factorisation."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.simulators._versions import version
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import SuperLU

Array = NDArray[np.float64]
Pair = tuple[float, float]


@runtime_checkable
class _HeatedPlate(Protocol):
    """A rectangle with an insulated rim that conducts, loses heat to its surroundings and is heated."""

    @property
    def sides(self) -> Pair: ...

    @property
    def conductance(self) -> float: ...

    @property
    def exchange(self) -> float: ...

    @property
    def ambient(self) -> float: ...

    def heating(self, design: Design, x: Array, y: Array) -> Array: ...


@dataclass(frozen=True)
class HeatedPlateFindiff(Simulator):
    """Solve k t (T_xx + T_yy) - h (T - T_a) + q = 0 with an insulated rim (findiff: Baer, 2018; SciPy's SuperLU).

    findiff's second-order operators act on the cell centres and one ring of ghost cells beyond the rim, each of which
    has the temperature of the cell that it mirrors. So the flux across the rim is zero, every column of the Laplacian
    sums to zero, and the heat that the cells lose is the heat that they receive. The matrix of -k t lap + h has no
    positive entry off its diagonal: no cell is colder than the surroundings.

    Args:
        cells: Number of cells along x, from 12 to 768; along y as many as make them square, or nearly so.

    Raises:
        ValueError: a number of cells out of bounds.
    """

    cells: int = 96

    idempotent = True

    def __post_init__(self) -> None:
        if not 12 <= self.cells <= 768:
            raise ValueError(f"The chips simulator's grid has {self.cells!r} cells along x: choose from 12 to 768.")

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The fields ``temperature`` in degC and ``heating`` in W/m^2 over (x, y), at the cell centres, in mm.

        Raises:
            ValueError: a problem that is no heated plate, or a design that the plate cannot carry.
        """
        import xarray as xr

        if not isinstance(problem, _HeatedPlate):
            raise ValueError(
                f"The chips simulator cannot run {type(problem).__name__}, which is no heated plate with an insulated "
                "rim (`sides`, `conductance`, `exchange`, `ambient`, `heating`): use the problem chips, or another "
                "simulator."
            )
        shape = (self.cells, max(1, round(self.cells * problem.sides[1] / problem.sides[0])))
        spacing = (problem.sides[0] / shape[0], problem.sides[1] / shape[1])
        x, y = (step * np.arange(0.5, n, dtype=np.float64) for n, step in zip(shape, spacing, strict=True))
        heating = problem.heating(design, x, y)
        factors = _factors(shape, spacing, problem.conductance, problem.exchange)
        rise = factors.solve(heating.ravel()).reshape(shape)
        return xr.Dataset(
            {
                "temperature": (("x", "y"), problem.ambient + rise, {"units": "degC"}),
                "heating": (("x", "y"), heating, {"units": "W/m^2"}),
            },
            coords={"x": ("x", x, {"units": "mm"}), "y": ("y", y, {"units": "mm"})},
            attrs={
                "mesh": f"{shape[0]} x {shape[1]} cells of {spacing[0]:g} x {spacing[1]:g} mm, values at their centres",
                "solver": f"findiff {version('findiff')} Laplacian of second order, sparse LU of SciPy "
                f"{version('scipy')}",
            },
        )


@lru_cache(maxsize=4)
def _factors(shape: tuple[int, int], spacing: Pair, conductance: float, exchange: float) -> "SuperLU":
    """Factors of h - k t lap in W/(m^2 K), for a spacing in mm."""
    from scipy.sparse import identity
    from scipy.sparse.linalg import splu

    laplacian = _laplacian(shape, (spacing[0] * 1e-3, spacing[1] * 1e-3))
    return splu((exchange * identity(laplacian.shape[0]) - conductance * laplacian).tocsc())


def _laplacian(shape: tuple[int, int], spacing: Pair) -> "csr_matrix":
    """findiff's Laplacian with mirrored ghost cells, in the spacing's unit^-2; shape (cells, cells)."""
    # Imported here: it brings SymPy, for which only the process that simulates should wait.
    from findiff import Diff
    from scipy.sparse import kron

    operator = Diff(0) ** 2 + Diff(1) ** 2
    operator.set_grid(dict(enumerate(spacing)))
    operator.set_accuracy(2)
    with_ghosts = (shape[0] + 2, shape[1] + 2)
    inside = np.zeros(with_ghosts, dtype=bool)
    inside[1:-1, 1:-1] = True
    rows = operator.matrix(with_ghosts).tocsr()[inside.ravel()]
    return rows @ kron(_mirror(shape[0]), _mirror(shape[1]))


def _mirror(cells: int) -> "csr_matrix":
    """Values in a row of cells to values there and in a ghost cell at either end; shape (cells + 2, cells)."""
    from scipy.sparse import csr_matrix

    source = np.clip(np.arange(-1, cells + 1), 0, cells - 1)
    return csr_matrix((np.ones(cells + 2), (np.arange(cells + 2), source)))
