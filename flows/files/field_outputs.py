"""Outputs of fields that people hand in, checked as a simulation's are, and against values given beside them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_files import read_field
from fieldcraft.flows.text import quoted
from fieldcraft.physics.gradients import gradient_of
from fieldcraft.physics.outputs.checks import numbers_given
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.readings import NOISE, PLACE, readings_of
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Design
from fieldcraft.storage.fields import FieldError, content_digest

if TYPE_CHECKING:
    import xarray as xr

REL, ABS = 1e-6, 1e-12
"""Most by which a given output may differ from the field's: a share of the larger of both, and in its unit."""


def outputs_of_file(
    problem: Problem, design: Design, file: Path, given: Mapping[str, float]
) -> tuple[dict[str, float], str]:
    """The outputs that a problem reads from a file of a field, and the digest of the field's content.

    Args:
        problem: The problem.
        design: The design of the field, in physical units.
        file: netCDF, or a folder of zarr.
        given: Outputs known from elsewhere, in their units; some, all or none.

    Raises:
        InputError: the file cannot be read or stored, or its field is none of the problem's (``checked_outputs``).
    """
    dataset = read_field(file)
    outputs = checked_outputs(problem, design, dataset, given)
    try:
        return outputs, content_digest(dataset)
    except FieldError as error:
        raise InputError(f"{file}: {error}") from None


def checked_outputs(
    problem: Problem, design: Design, fields: "xr.Dataset", given: Mapping[str, float]
) -> dict[str, float]:
    """The outputs that a problem reads from a field, in their units.

    A variable without a unit has the problem's. What the problem states nothing of is not looked at.

    Args:
        problem: The problem.
        design: The design of the field, in physical units.
        fields: The field.
        given: Outputs known from elsewhere, in their units; some, all or none.

    Raises:
        InputError: an output, a stated field or an axis is in another unit than the problem's, or is not finite; its
            readings at single places lack something; its gradient is not that of the problem's variables; the problem
            cannot read its outputs; or one of them differs from the given one by more than ``REL`` and ``ABS``.
    """
    require_units(problem, fields)
    _require_finite(problem, fields)
    require_readings(problem, fields)
    outputs = _evaluated(problem, design, fields)
    try:
        gradient_of(problem, fields)
    except ValueError as error:
        raise InputError(f"gradient of the field: {error}.") from None
    for name, value in outputs.items():
        if not math.isfinite(value):
            raise InputError(f"output {name!r} of the field is {value}. Give a field that has a finite one.")
        if name in given and not math.isclose(value, given[name], rel_tol=REL, abs_tol=ABS):
            raise InputError(
                f"{name} is {given[name]:.9g} in the table and {value:.9g} by its field. Let both agree to {REL:g} of "
                "their size, or give only one of them."
            )
    return outputs


def require_units(problem: Problem, fields: "xr.Dataset") -> None:
    """Accept a field whose outputs, stated fields and axes are in the problem's units; none stated is the problem's.

    A pure number has no unit, or the unit 1.

    Raises:
        InputError: one is in another unit. Nothing is converted.
    """
    stated = problem.fields
    known = {output.name: output.unit for output in problem.measured}
    if stated is not None:
        known |= {axis.name: axis.unit for axis in stated.domain.axes}
        known |= {field.name: field.unit for field in stated.fields}
        known |= {field.name + NOISE: field.unit for field in stated.fields}
    for name, unit in known.items():
        if name in fields and (said := fields[name].attrs.get("units", unit)) != unit and (said, unit) != ("1", ""):
            raise InputError(
                f"{name!r} of the field is in {quoted(str(said))}, and the problem has it in {unit or 'no unit'!r}. "
                "Convert it, and its attribute 'units' with it."
            )


def require_readings(problem: Problem, fields: "xr.Dataset") -> None:
    """Accept a dataset whose readings at single places, if it holds any, are whole.

    Raises:
        InputError: they are of none of the stated fields, lack a coordinate or their noise, lie outside the domain, or
            are not finite.
    """
    stated = problem.parametric
    if stated is None:
        return
    try:
        found = readings_of(stated, fields)
    except ValueError as error:
        raise InputError(f"readings of the field: {error}.") from None
    if found is None and PLACE in fields.dims:
        given = ", ".join(quoted(str(name)) for name in fields.data_vars if name not in stated.domain.names)
        known = ", ".join(each.name for each in stated.fields)
        raise InputError(
            f"readings of the field: they are of {given or 'nothing'}, and the equation is of {known}. Name each "
            "column of readings as its field, and their noise NAME sd."
        )


def _require_finite(problem: Problem, fields: "xr.Dataset") -> None:
    stated = problem.fields
    names = () if stated is None else (*stated.domain.names, *(each.name for each in stated.fields))
    for name in names:
        if name in fields and fields[name].dtype.kind == "c":
            raise InputError(f"{name!r} of the field has complex values: give its real values, of a real type.")
        if name not in fields or fields[name].dtype.kind != "f":
            continue
        values = fields[name].values
        bad = np.argwhere(~np.isfinite(values) & _asked(problem, fields, name))
        if len(bad):
            place = ", ".join(f"{dim} {n}" for dim, n in zip(fields[name].dims, bad[0], strict=True))
            raise InputError(
                f"{name!r} of the field is {values[tuple(bad[0])]} at {place or 'its only place'} (counted from 0). "
                "Give a finite number there."
            )


def _asked(problem: Problem, fields: "xr.Dataset", name: str) -> NDArray[np.bool_]:
    """True where a variable of a field counts, of its shape: not at cells that the mask of the domain leaves out."""
    stated, variable = problem.fields, fields[name]
    axes = () if stated is None else stated.domain.names
    if stated is None or stated.domain.mask is None or set(variable.dims) != set(axes) or min(variable.shape) < 2:
        return np.ones(variable.shape, dtype=bool)
    cells = tuple(variable.sizes[axis] for axis in axes)
    inside = Grid(stated.domain, cells).inside.reshape(cells)
    return inside.transpose([axes.index(str(axis)) for axis in variable.dims])


def _evaluated(problem: Problem, design: Design, fields: "xr.Dataset") -> dict[str, float]:
    try:
        return numbers_given(problem.evaluate(design, fields), problem.measured)
    except Exception as error:  # the outermost edge of a user's problem: whatever it raises is one clear error
        raise InputError(
            f"problem {type(problem).__name__} cannot read its outputs from the field: {type(error).__name__}: {error}"
        ) from error
