"""The fields of a design from the equation that its problem states, by finite differences."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.gradients import PREFIX, gradient_units
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import ParametricEquation
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.simulators._versions import version
from fieldcraft.physics.space import Design
from fieldcraft.physics.tangents import gradient

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

        gradient: True to return the derivatives of the objective by the continuous variables too, from which exact_gp
            and emulated_gp learn; of an equation in steady state. They cost one substitution each
            (``physics.tangents``).

    Raises:
        ValueError: a number of cells out of bounds.
    """

    cells: int = 400
    gradient: bool = False

    idempotent = True

    def __post_init__(self) -> None:
        if not 8 <= self.cells <= 100_000:
            raise ValueError(f"The grid has {self.cells!r} cells along its first axis: choose from 8 to 100000.")

    def run(self, problem: Problem, design: Design, rng: np.random.Generator) -> "xr.Dataset":
        """The stated fields at the centres of the cells, and the gradient if it is asked for.

        Raises:
            ValueError: the problem states no equation of its fields, the grid has more than 20 million cells, those
                of time with them, or a gradient is asked for of fields in time or without a functional.
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
        found = {
            field.name: (stated.domain.names, fields[field.name][0], {"units": field.unit}) for field in stated.fields
        }
        return xr.Dataset(
            found | (_derivatives(problem, stated, design, shape) if self.gradient else {}),
            coords={axis.name: (axis.name, centres[axis.name], {"units": axis.unit}) for axis in stated.domain.axes},
            attrs={
                "mesh": f"{' x '.join(map(str, shape))} equal cells, values at their centres",
                "solver": f"second-order central differences, sparse LU of SciPy {version('scipy')}",
            },
        )


def _derivatives(
    problem: Problem, stated: ParametricEquation, design: Design, shape: tuple[int, ...]
) -> "dict[str, tuple[tuple[()], float, dict[str, str]]]":
    """Variables of a dataset with the gradient of the objective, each with its unit."""
    slopes, units = gradient(problem, stated, design, shape), gradient_units(problem)
    return {PREFIX + name: ((), slope, {"units": units[PREFIX + name]}) for name, slope in slopes.items()}
