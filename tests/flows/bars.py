"""Simulations of a cantilever from before a campaign: a file of its fields for each design, and a table of them."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from small import SEARCH

from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.fields import FieldStore
from fieldcraft.storage.records import Trial

BAR: dict[str, Any] = {
    "name": "bar",
    "seed": 4,
    "sense": "minimize",
    "problem": {"kind": "cantilever_profile"},
    "simulator": {"kind": "stated_equation", "cells": 50},
    "algorithm": {"kind": "gp_ei", "start": {"n": 3}, "maximizer": SEARCH},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 4},
}
DEPTHS = ((20.0, 20.0, 20.0, 20.0, 20.0), (30.0, 25.0, 20.0, 15.0, 10.0), (10.0, 15.0, 20.0, 25.0, 30.0))
KNOTS = tuple(CantileverProfile().space.names)


def design(depths: Sequence[float]) -> dict[str, float]:
    """The design of these depths, in mm."""
    return dict(zip(KNOTS, depths, strict=True))


def simulated(depths: Sequence[float]) -> xr.Dataset:
    """Deflection and moment of a bar, on 50 cells."""
    return StatedEquation(cells=50).run(CantileverProfile(), design(depths), np.random.default_rng(0))


def compliance(fields: xr.Dataset) -> float:
    """The output of a bar, in J."""
    return CantileverProfile().evaluate(design(DEPTHS[0]), fields)["compliance"]


def written(fields: xr.Dataset, file: Path) -> Path:
    """The file of a field: netCDF, or zarr by its name."""
    file.parent.mkdir(exist_ok=True)
    if file.suffix == ".zarr":
        fields.to_zarr(file, consolidated=False, mode="w")
    else:
        fields.to_netcdf(file, engine="h5netcdf")
    return file


def table(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A table of these rows."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def three(folder: Path, suffix: str = ".nc") -> Path:
    """A folder with a table of three bars and their fields."""
    folder.mkdir(exist_ok=True)
    rows = []
    for n, depths in enumerate(DEPTHS):
        written(simulated(depths), folder / "fields" / f"{n}{suffix}")
        rows.append({**design(depths), "field": f"fields/{n}{suffix}"})
    return table(folder / "bars.csv", rows)


def of_trials(folder: Path, trials: Sequence[Trial], fields: FieldStore, design: str = "", output: str = "") -> Path:
    """A folder with the trials of a campaign as a table, their fields beside it.

    Args:
        folder: The folder, which is made.
        trials: Trials with fields.
        fields: Their store.
        design: Text before the names of the variables.
        output: Text before the names of the outputs; without it they are left out.
    """
    folder.mkdir()
    rows = []
    for trial in trials:
        assert trial.field is not None and trial.outputs is not None
        written(fields.read(trial.field), folder / f"{trial.id}.nc")
        row: dict[str, object] = {f"{design}{name}": repr(value) for name, value in trial.actual.items()}
        row |= {f"{output}{name}": repr(value) for name, value in trial.outputs.items() if output}
        rows.append({**row, "field": f"{trial.id}.nc"})
    return table(folder / "bars.csv", rows)
