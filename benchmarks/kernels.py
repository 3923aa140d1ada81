"""What a process predicts, and what campaigns find, with the default kernel, a chosen one, and drawn fronts.

    OMP_NUM_THREADS=1 python benchmarks/kernels.py --json FILE [--seeds 5] [--parts predictions several]

`exact_gp` with its default, "matern52", and with `kernel: chosen`. Part `predictions`, which has `trend_gp`, too: as in
`benchmarks/priors.py`, for its problems and each output of four simulators (10, 25 and 50 Sobol designs), so many draws
of each (two are stored). Part `several`: campaigns of several objectives, as in `benchmarks/objectives.py`, by
`log_ehvi`, and with the chosen kernel by `log_nehvi` (`drawn fronts`), too. FILE has the mean log density and the
error, and the hypervolume at the end with the CPU seconds. What is in FILE is not run again.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import objectives
import priors
import torch

from fieldcraft.models.acquisition import Acquisition
from fieldcraft.models.acquisitions.log_ehvi import LogEHVI
from fieldcraft.models.acquisitions.log_nehvi import LogNEHVI
from fieldcraft.models.surrogate import Surrogate
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.trend_gp import TrendGP
from fieldcraft.physics.problems.branin_currin import BraninCurrin
from fieldcraft.physics.problems.c2_dtlz2 import C2Dtlz2
from fieldcraft.physics.problems.car_side_impact import CarSideImpact
from fieldcraft.physics.problems.disc_brake import DiscBrake
from fieldcraft.physics.problems.penicillin import Penicillin
from fieldcraft.physics.problems.speed_reducer import SpeedReducer
from fieldcraft.physics.problems.vehicle_safety import VehicleSafety

PARTS = ("predictions", "several")
KERNELS: Mapping[str, ExactGP] = {"matern52": ExactGP(), "chosen": ExactGP(kernel="chosen")}
PROCESSES: Mapping[str, Surrogate] = {**KERNELS, "trend_gp": TrendGP()}
METHODS: Mapping[str, tuple[ExactGP, Acquisition]] = {
    **{kernel: (surrogate, LogEHVI()) for kernel, surrogate in KERNELS.items()},
    "chosen, drawn fronts": (KERNELS["chosen"], LogNEHVI()),
}
SIMULATORS: Mapping[str, Any] = {
    "speed_reducer": SpeedReducer(),
    "car_side_impact": CarSideImpact(),
    "vehicle_safety": VehicleSafety(),
    "penicillin": Penicillin(),
}
SEVERAL: Mapping[str, tuple[Any, int]] = {
    "branin_currin": (BraninCurrin(), 86),
    "c2_dtlz2": (C2Dtlz2(), 50),
    "vehicle_safety": (VehicleSafety(), 60),
    "disc_brake": (DiscBrake(), 50),
    "penicillin": (Penicillin(), 56),
    "car_side_impact": (CarSideImpact(), 40),
}


def predictions(surrogate: Surrogate, seeds: int) -> dict[str, Callable[[], dict[str, float]]]:
    """What measures the predictions of each problem."""
    found: dict[str, Callable[[], dict[str, float]]] = {}
    for name, problem in SIMULATORS.items():
        function = priors.outputs_of(problem)
        found[name] = partial(priors.foretold, surrogate, problem.space, function, (10, 25, 50), seeds)
    for name, task in priors.TASKS.items():
        sizes = (6, 12, 25) if name == "branin" else (15, 30, 60)
        function = partial(priors.column, task)
        found[name] = partial(priors.foretold, surrogate, task.space, function, sizes, seeds)
    return found


def several(problem: Any, trials: int, method: tuple[ExactGP, Acquisition], seed: int) -> dict[str, float]:
    """One campaign of several objectives: the hypervolume at its end, and CPU seconds."""
    run = objectives.campaign(problem, objectives.ours(*method), seed, trials)
    return {"end": run["hypervolume"][-1], "cpu": run["seconds"]}


def main() -> None:
    """Run what the file lacks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if "predictions" in options.parts:
        for kernel, surrogate in PROCESSES.items():
            for name, learnt in predictions(surrogate, options.seeds).items():
                found = priors.kept(options.json, f"predictions | {name} | {kernel}", learnt)
                print(f"{name:20} {kernel:9} density {found['density']:6.2f}, error {found['error']:.3f}", flush=True)
    if "several" not in options.parts:
        return
    runs = {
        f"several | {name} | {each}": partial(several, problem, trials, method)
        for each, method in METHODS.items()
        for name, (problem, trials) in SEVERAL.items()
    }
    for key, run in runs.items():
        each = [priors.kept(options.json, f"{key} | {seed}", partial(run, seed)) for seed in range(options.seeds)]
        ends = [one["end"] for one in each]
        error = stdev(ends) / len(ends) ** 0.5 if len(ends) > 1 else float("nan")
        cpu = mean(one["cpu"] for one in each)
        print(f"{key:40} {mean(ends):9.5g} +- {error:.2g}   {len(ends)} seeds, {cpu:.1f} CPU s each", flush=True)


if __name__ == "__main__":
    main()
