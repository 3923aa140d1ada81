"""Readings of a field at single places, such as those of thermocouples, with the noise of each."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.parametric.statement import ParametricEquation

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

PLACE = "place"
"""Dimension of readings in a dataset: one entry for each place."""
NOISE = "_sd"
"""End of the name of the variable that has the readings' standard deviations: ``temperature_sd``."""


@dataclass(frozen=True, eq=False)
class Readings:
    """Values of stated fields at single places.

    Args:
        places: Coordinates by the domain's axes, in their units, shape (p, d).
        values: Readings of each field, in its unit, shape (fields, p); NaN where a field was not read.
        sd: Standard deviations of their noise, in the same units, shape (fields, p); NaN where ``values`` is.
    """

    places: Array
    values: Array
    sd: Array


def readings_of(stated: ParametricEquation, fields: "xr.Dataset") -> Readings | None:
    """The readings in a dataset, whose variables have the one dimension ``place``; None if it holds none.

    Each axis of the domain is a variable of that dimension, and so is a field and its ``NAME_sd``.

    Raises:
        ValueError: an axis or a standard deviation is missing or has other dimensions, a place lies outside the domain,
            a number is not finite, or a standard deviation is not positive.
    """
    given = [each.name for each in stated.fields if each.name in fields and fields[each.name].dims == (PLACE,)]
    if not given:
        return None
    axes = {axis.name: _column(fields, axis.name, f"the readings of {given[0]!r}") for axis in stated.domain.axes}
    for axis in stated.domain.axes:
        outside = np.flatnonzero((axes[axis.name] < axis.low) | (axes[axis.name] > axis.high))
        if len(outside):
            raise ValueError(
                f"reading {outside[0] + 1} is at {axis.name} = {axes[axis.name][outside[0]]:g} {axis.unit}".rstrip()
                + f", and the domain goes from {axis.low:g} to {axis.high:g}: give places within it"
            )
    places = np.stack(list(axes.values()), axis=1)
    outside = np.flatnonzero(~stated.domain.contains(places))
    if len(outside):
        at = ", ".join(f"{name} = {x:g}" for name, x in zip(axes, places[outside[0]], strict=True))
        raise ValueError(
            f"reading {outside[0] + 1} is at {at}, which the domain's mask leaves out: give places within it"
        )
    shape = len(stated.fields), fields.sizes[PLACE]
    values, sd = np.full(shape, np.nan), np.full(shape, np.nan)
    for number, field in enumerate(stated.fields):
        if field.name in given:
            values[number] = _column(fields, field.name, "the readings")
            sd[number] = _column(fields, field.name + NOISE, f"the readings of {field.name!r}")
            poor = np.flatnonzero(sd[number] <= 0)
            if len(poor):
                raise ValueError(
                    f"{field.name + NOISE!r} of reading {poor[0] + 1} is {sd[number, poor[0]]:g}: give the standard "
                    "deviation of its noise, above 0"
                )
    return Readings(places, values, sd)


def _column(fields: "xr.Dataset", name: str, of: str) -> Array:
    if name not in fields or fields[name].dims != (PLACE,):
        said = f"it has the dimensions {fields[name].dims}" if name in fields else "there is none"
        column = f"{name.removesuffix(NOISE)} sd" if name.endswith(NOISE) else name
        raise ValueError(
            f"{of} need {name!r} along {PLACE!r}, in a table the column {column!r}, and {said}: give one number for "
            "each place"
        )
    if fields[name].dtype.kind not in "fiu":
        raise ValueError(f"{name!r} has the type {fields[name].dtype}: give real numbers")
    values = np.asarray(fields[name].values, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name!r} of reading {bad[0] + 1} is {values[bad[0]]}: give a finite number, or leave it out")
    return values
