"""The fields of a design from the equation that its problem states, by finite differences."""

import math
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr

# Cells of a grid in space and time.
_MOST = 20_000_000


@dataclass(frozen=True)
class StatedEquation(Simulator):
    """Solve a problem's ``parametric`` equation by second-order central differences and a direct solver of SciPy.

    Args:
        cells: Number of cells along the first axis, from 8 to 100,000; along the others as many as the problem's own
            coarse grid has in proportion.

    Raises:
        ValueError: a number of cells out of bounds.
    """

    cells: int = 400

    idempotent = True

    def __post_init__(self) -> None:
        if not 8 <= self.cells <= 100_000:
            raise ValueError(f"The grid has {self.cells!r} cells along its first axis: choose from 8 to 100000.")

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The stated fields at the centres of the cells.

        Raises:
            ValueError: the problem states no equation of its fields, or the grid has more than 20 million cells, those
                of time with them.
        """
        import xarray as xr

        stated = problem.parametric
        if stated is None:
            raise ValueError(
                f"The simulator stated_equation cannot run {type(problem).__name__}, which states no equation of its "
                "fields (`parametric`): use another simulator."
            )
        first, *_ = stated.cells
        shape = tuple(max(2, round(self.cells * n / first)) for n in stated.cells)
        if math.prod(shape) > _MOST:
            enough = int(self.cells * (_MOST / math.prod(shape)) ** (1 / len(shape)))
            raise ValueError(
                f"The simulator stated_equation cannot run {type(problem).__name__} on {' x '.join(map(str, shape))} "
                f"cells, {math.prod(shape):,} in all: give it `cells` of at most {enough}."
            )
        fields = solved(stated, design, shape)
        centres = Grid(stated.domain, shape).centres
        return xr.Dataset(
            {
                field.name: (stated.domain.names, fields[field.name][0], {"units": field.unit})
                for field in stated.fields
            },
            coords={axis.name: (axis.name, centres[axis.name], {"units": axis.unit}) for axis in stated.domain.axes},
            attrs={
                "mesh": f"{' x '.join(map(str, shape))} equal cells, values at their centres",
                "solver": f"second-order central differences, sparse LU of SciPy {version('scipy')}",
            },
        )
