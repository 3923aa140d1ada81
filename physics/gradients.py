"""Gradients that simulations return: derivatives of the objective by the continuous variables, in physical units."""

from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, SearchSpace

if TYPE_CHECKING:
    import xarray as xr

PREFIX = "gradient."
"""Beginning of the names of the scalar variables: ``gradient.width`` is the derivative by ``width``.

Each derivative is a variable of its own, since each has its own unit, and since stored fields hold no text that would
name the entries of one array.
"""


def gradient_names(space: SearchSpace) -> dict[str, str]:
    """Names of the derivatives' variables in a simulation's dataset, by the continuous variables' names."""
    return {v.name: PREFIX + v.name for v in space.variables if isinstance(v, Continuous)}


def gradient_units(problem: Problem) -> dict[str, str]:
    """Unit of each derivative, by its name in a dataset: ``J/mm``, and ``J/(1/s)`` by a variable in ``1/s``."""
    objective, units = problem.outputs[0].unit, problem.space.units
    return {
        name: f"{objective or '1'}/{_one(units[variable])}" if units[variable] else objective
        for variable, name in gradient_names(problem.space).items()
    }


def _one(unit: str) -> str:
    return f"({unit})" if any(mark in unit for mark in "/* .") else unit


def gradient_of(problem: Problem, fields: "xr.Dataset") -> dict[str, float] | None:
    """Derivatives of the objective by each continuous variable, in its unit by the variable's; None if none is there.

    Raises:
        ValueError: a derivative is missing, by no continuous variable, not a single real number, not finite, or in
            another unit.
    """
    given = [str(name) for name in fields.variables if str(name).startswith(PREFIX)]
    if not given:
        return None
    due, units = gradient_names(problem.space), gradient_units(problem)
    for name in given:
        if name not in due.values():
            raise ValueError(
                f"the simulation gave {name!r}, and the continuous variables are {', '.join(due) or 'none'}: give the "
                "derivatives by these alone"
            )
    for name in due.values():
        if name not in given:
            raise ValueError(f"the simulation gave {given[0]!r} and no {name!r}: give all derivatives, or none")
        if fields[name].ndim or fields[name].dtype.kind not in "fiu":
            raise ValueError(
                f"{name!r} has the dimensions {fields[name].dims} and the type {fields[name].dtype}: give one real "
                "number"
            )
        if not np.isfinite(fields[name].values):
            raise ValueError(f"{name!r} is {float(fields[name])}: give a finite number, or no gradient")
        if (said := fields[name].attrs.get("units", units[name])) != units[name]:
            raise ValueError(
                f"{name!r} is in {str(said)!r}, not in {units[name] or 'no unit'!r}: give it in that unit, so written"
            )
    return {variable: float(fields[name]) for variable, name in due.items()}
