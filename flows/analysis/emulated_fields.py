"""The field of a simulation beside the one that the problem's stated equation gives on its coarse grid."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.problem import Problem, Solve
from fieldcraft.physics.space import Design

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Beside:
    """One field twice, at the centres of the coarse cells.

    Args:
        name: Name of the field.
        unit: Its unit.
        axes: Centres along each axis, by name.
        units: Unit of each axis.
        emulated: The field by the equation on the coarse grid, shape (cells along each axis).
        simulated: The simulation's field, interpolated linearly, of the same shape.
    """

    name: str
    unit: str
    axes: Mapping[str, np.ndarray]
    units: Mapping[str, str]
    emulated: np.ndarray
    simulated: np.ndarray


def beside(problem: Problem, design: Design, fields: "xr.Dataset", solve: Solve | None = None) -> Beside | None:
    """The first stated field that a simulation gave, beside its emulation; None if no equation emulates.

    Args:
        problem: The problem.
        design: The design.
        fields: What its simulation gave.
        solve: Solver of the equation on the coarse grid, such as a network; finite differences where it is None.

    Raises:
        ValueError: the equation cannot be solved for this design.
    """
    from fieldcraft.physics.parametric.finite_differences import solved

    stated = problem.parametric
    if stated is None or (problem.emulator != "equation" and solve is None):
        return None
    names = stated.domain.names
    for field in stated.fields:
        if field.name in fields and set(fields[field.name].dims) == set(names):
            centres = Grid(stated.domain, stated.cells).centres
            found = fields[field.name].interp({name: centres[name] for name in names})
            return Beside(
                name=field.name,
                unit=field.unit,
                axes=centres,
                units={axis.name: axis.unit for axis in stated.domain.axes},
                emulated=(solve or solved)(stated, design, stated.cells)[field.name][0],
                simulated=np.asarray(found.transpose(*names), dtype=np.float64),
            )
    return None


def expected(problem: Problem, design: Design, solve: Solve | None = None) -> "xr.DataArray | None":
    """The first stated field of one or two dimensions of a design by the equation, at the coarse cells' centres.

    None if no equation emulates. The arguments and errors are those of ``beside``.
    """
    import xarray as xr

    from fieldcraft.physics.parametric.finite_differences import solved

    stated = problem.parametric
    if stated is None or len(stated.cells) > 2 or (problem.emulator != "equation" and solve is None):
        return None
    first, centres = stated.fields[0], Grid(stated.domain, stated.cells).centres
    values = (solve or solved)(stated, design, stated.cells)[first.name][0]
    coords = {axis.name: (axis.name, centres[axis.name], {"units": axis.unit}) for axis in stated.domain.axes}
    return xr.DataArray(values, coords, stated.domain.names, first.name, {"units": first.unit})
