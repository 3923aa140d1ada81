"""A simulator that keeps count of itself: every run appends its design to the file that the environment names."""

import json
import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class Counted(Simulator):
    """Exact heights, and a small field of them around the design."""

    idempotent: ClassVar[bool] = True

    def run(self, problem, design, rng):
        line = json.dumps([design["x"], design["y"]]) + "\n"
        descriptor = os.open(os.environ["SIMULATED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)
        offsets = np.linspace(-0.1, 0.1, 5)
        around = np.array([[design["x"] + a, design["y"]] for a in offsets])
        height = float(problem.exact(np.array([[design["x"], design["y"]]]))[0])
        return xr.Dataset(
            {"height": ((), height, {"units": "m"}), "profile": ("offset", problem.exact(around), {"units": "m"})},
            coords={"offset": ("offset", offsets, {"units": "m"})},
        )
