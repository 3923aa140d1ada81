"""Fields that a model predicts, as a dataset with units; imports torch where it is used."""

from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.physics.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

    from fieldcraft.models.surrogate import Posterior


def predicted_fields(problem: Problem, posterior: "Posterior", X: np.ndarray) -> "xr.Dataset | None":
    """Fields at encoded designs X (n, d) by the posterior; None if it knows no field.

    Args:
        problem: The problem, which states the fields.
        posterior: The model.
        X: The designs.

    Returns:
        For each field its mean ``NAME`` and standard deviation ``NAME_sd`` in its unit, of the dimensions ``design``
        and the domain's axes. They are means over the cells that the model works on, which may be fewer than those of
        a simulation, and NaN at cells that the domain's mask leaves out.
    """
    import xarray as xr

    from fieldcraft.models.surrogate import predicting_fields

    of_fields, stated = predicting_fields(posterior), problem.parametric or problem.fields
    if of_fields is None or of_fields.snapshots.grid is None or stated is None:
        return None
    grid, units = of_fields.snapshots.grid, {field.name: field.unit for field in stated.fields}
    mean, sd = (grid.boxed(each) for each in of_fields.field_moments(X))
    dims, found = ("design", *grid.domain.names), {}
    for number, name in enumerate(of_fields.snapshots.names):
        about = {"units": units[name], "long_name": f"{name}, predicted"}
        found[name] = (dims, mean[:, number], about)
        found[f"{name}_sd"] = (dims, sd[:, number], {**about, "long_name": f"{name}, standard deviation predicted"})
    axes = {axis.name: (axis.name, grid.centres[axis.name], {"units": axis.unit}) for axis in grid.domain.axes}
    return xr.Dataset(found, axes)
