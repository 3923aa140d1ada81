"""The counting simulator as an experiment that must not be repeated without a person's word."""

import json
import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class Delicate(Simulator):
    """Exact heights; every run appends its design to the file that the environment names."""

    idempotent: ClassVar[bool] = False

    def run(self, problem, design, rng):
        with open(os.environ["SIMULATED"], "a") as count:
            count.write(json.dumps([design["x"], design["y"]]) + "\n")
        height = float(problem.exact(np.array([[design["x"], design["y"]]]))[0])
        return xr.Dataset({"height": ((), height, {"units": "m"})})
