"""A campaign with levels on plug-ins: the function of a problem as a mesh of so many cells sees it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rig import Rig, rig

from fieldcraft.storage.records import Trial

SIMULATOR = '''
"""Heights as a mesh sees them: a coarse one falls short of them."""

import os
from dataclasses import dataclass

import numpy as np
import xarray as xr

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class Mesh(Simulator):
    """See the test."""

    cells: int = 96
    short: float = 600.0

    idempotent = True

    def run(self, problem, design, rng):
        if (log := os.environ.get("MESH_LOG")) is not None:
            with open(log, "a") as file:
                file.write(f"{self.cells}\\n")
        (height,) = problem.function(design).values()
        seen = height - self.short / self.cells * (1 + 0.3 * np.sin(design["x1"]))
        line = ("s", np.full(self.cells, seen), {"units": ""})
        return xr.Dataset({problem.outputs[0].name: ((), seen, {"units": problem.outputs[0].unit}), "line": line})
'''
LEVELS = ({"cells": 24, "cost": 0.2}, {"cells": 12, "cost": 0.05})
WORDS: Mapping[str, Any] = {
    "surrogate": {"kind": "multilevel_gp"},
    "acquisition": {"kind": "log_ei"},
    "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
}


def plugins(folder: Path, simulator: str = SIMULATOR) -> Path:
    """A plug-in directory with the simulator."""
    (folder / "plugins" / "simulators").mkdir(parents=True, exist_ok=True)
    (folder / "plugins" / "simulators" / "mesh.py").write_text(simulator)
    return folder / "plugins"


def mesh(folder: Path, code: str = SIMULATOR, **keys: Any) -> Rig:
    """A campaign ``b`` of Branin's function with two levels; ``keys`` are keys of the campaign file."""
    plugins(folder, code)
    given = {
        "sense": "minimize",
        "problem": {"kind": "branin"},
        "simulator": {"kind": "mesh"},
        "levels": list(LEVELS),
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": 3, "cost": 3.6},
        "algorithm": {"start": {"n": 2}, **WORDS},
    }
    return rig(folder, **{**given, **keys})


def brief(folder: Path, dispatcher: str) -> Rig:
    """A campaign of one coarse run and one result, on a dispatcher."""
    folder.mkdir(exist_ok=True)
    return mesh(
        folder,
        dispatcher={"kind": dispatcher},
        levels=[{"cells": 12, "cost": 0.05}],
        budget={"trials": 1, "cost": 1.2},
        algorithm={"start": {"n": 1}, **WORDS},
    )


def runs(made: Rig) -> list[tuple[int | None, Mapping[str, Any], Mapping[str, float] | None]]:
    """Level, design and outputs of each trial, by number."""
    return [(trial.level, trial.design, trial.outputs) for trial in made.ledger.trials("b")]


def of_level(trials: tuple[Trial, ...], level: int | None) -> list[Trial]:
    """The trials of one level."""
    return [trial for trial in trials if trial.level == level]
