"""Training of networks: a heat search beside that of an earlier checkout, and networks a second on each device.

``python benchmarks/training.py --before DIR`` runs, for each seed, the searches of ``campaigns/heat.yaml`` (6 Sobol
trials, then 24 by a trained network each) with the code here and with that in DIR, one after the other, and trains the
networks here once more on the data that DIR's search met. Without DIR it counts, for 1, 8 and 64 networks, networks
trained a second (2 x 64, 50 results of 6 coordinates, ten steps) and steps of all networks a second (residual networks,
3 x 64, 30 results and 64 collocation points): on one thread in CPU seconds, and on the GPU, where there is one, in wall
seconds. ``--json FILE`` keeps the figures.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from scipy.stats import qmc

from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.devices import computing_on
from fieldcraft.models.observations import Array, Observations, Physics
from fieldcraft.models.surrogate import Surrogate, no_report
from fieldcraft.models.surrogates.neural_greedy import NeuralGreedy
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.collocation import collocate
from fieldcraft.physics.problems.heat import Heat

ROOT = Path(__file__).resolve().parents[1]
PROBLEM, NOISE = Heat(boundary=2, margin=0.1), 0.02
HEAT = PhysicsInformed("trained", refinements=100)
START, TRIALS = 6, 30
COUNTS = (1, 8, 64)
STEPS = 10


@dataclass(frozen=True)
class Fit:
    """One training.

    Args:
        cpu: Its seconds.
        steps: Gauss-Newton steps that it took.
        loss: Its last loss.
        misfit: Root mean square, in standard deviations of the results.
        residual: Root mean square, relative to the operator's largest coefficient.
    """

    cpu: float
    steps: int
    loss: float
    misfit: float
    residual: float


def physics(seed: int) -> Physics:
    """Laplace's equation at 64 Sobol points of the plate."""
    points = collocate(PROBLEM.domain, 64, "sobol", np.random.default_rng([seed, 1]))
    half = np.full(2, math.pi - PROBLEM.margin)
    return Physics(PROBLEM.equation, points, np.full(2, math.pi), half)


def fitted(data: Observations, seed: int) -> tuple[Any, Fit]:
    """The posterior of the heat campaign's surrogate, and its cost."""
    losses: list[float] = []
    began = time.process_time()
    rng = np.random.default_rng([seed, len(data), 2])
    posterior = HEAT.fit(data, rng, None, lambda step, metrics, _: losses.append(metrics["loss"]))
    cpu, metrics = time.process_time() - began, posterior.metrics
    return posterior, Fit(cpu, len(losses), metrics["loss"], metrics["misfit"], metrics["residual"])


def search(seed: int, folder: Path) -> tuple[list[Fit], float]:
    """The trainings of one search, whose data go into a folder, and its simple regret in deviations of the plate."""
    known, sd = physics(seed), NOISE * PROBLEM.sd
    noise, fits = np.random.default_rng([seed, 3]), []

    def exact(X: Array) -> Array:
        return PROBLEM.exact(known.decode(np.clip(X, -1, 1)))

    X = 2 * qmc.Sobol(2, scramble=True, rng=np.random.default_rng([seed, 0])).random_base2(3)[:START] - 1
    y = exact(X) + sd * noise.standard_normal(START)
    while len(y) < TRIALS:
        data = Observations(X, y, maximize=True, noise_sd=sd, physics=known)
        np.savez(folder / f"{len(y):02d}.npz", X=X, y=y)
        posterior, fit = fitted(data, seed)
        fits.append(fit)
        draws = [np.random.default_rng([seed, len(y), k]) for k in (4, 5)]
        score = Thompson().score(posterior, data, torch.empty(0, 2, dtype=torch.float64), 1, draws[0])
        chosen = Multistart().maximize(score, PROBLEM.space, 1, draws[1]).X
        X = np.concatenate([X, chosen])
        y = np.append(y, exact(chosen) + sd * noise.standard_normal(1))
    return fits, float(PROBLEM.optimum("maximize").value - exact(X).max()) / PROBLEM.sd


def again(seed: int, folder: Path) -> list[Fit]:
    """Trainings on the data that a search left in a folder."""
    found = []
    for file in sorted(folder.glob("*.npz")):
        kept = np.load(file)
        data = Observations(kept["X"], kept["y"], maximize=True, noise_sd=NOISE * PROBLEM.sd, physics=physics(seed))
        found.append(fitted(data, seed)[1])
    return found


def child(what: str, seed: int, folder: Path, checkout: Path) -> Any:
    """The answer of a process that runs a checkout's code."""
    words = [sys.executable, __file__, "--child", what, str(seed), str(folder)]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def totals(fits: list[dict[str, float]]) -> dict[str, float]:
    """CPU seconds and steps in all, and the medians of misfit and residual."""
    return {
        "cpu": sum(fit["cpu"] for fit in fits),
        "steps": sum(fit["steps"] for fit in fits),
        "misfit": statistics.median(fit["misfit"] for fit in fits),
        "residual": statistics.median(fit["residual"] for fit in fits),
    }


def compared(before: Path, seeds: int) -> list[dict[str, Any]]:
    """Searches and trainings of both checkouts, seed by seed."""
    rows = []
    for seed in range(seeds):
        with TemporaryDirectory() as one, TemporaryDirectory() as other:
            old, old_regret = child("search", seed, Path(one), before)
            same = child("again", seed, Path(one), ROOT)
            new, new_regret = child("search", seed, Path(other), ROOT)
        # A loss below 1e-20 is zero to rounding in either.
        ratios = [max(b["loss"], 1e-20) / max(a["loss"], 1e-20) for a, b in zip(old, same, strict=True)]
        row = {
            "seed": seed,
            "before": {**totals(old), "regret": old_regret},
            "after": {**totals(new), "regret": new_regret},
            "after, data of before": totals(same),
            "loss, after by before": {"geometric mean": statistics.geometric_mean(ratios), "largest": max(ratios)},
            "cpu, before by after, same data": totals(old)["cpu"] / totals(same)["cpu"],
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def seconds(call: Callable[[], object], device: str) -> float:
    """Median seconds of three calls: of the CPU, or of the wall where a GPU computes; a fit ends on the CPU."""
    clock, found = time.perf_counter if device == "cuda" else time.process_time, []
    with computing_on("cuda" if device == "cuda" else "cpu"):
        call()
        for _ in range(3):
            began = clock()
            call()
            found.append(clock() - began)
    return statistics.median(found)


def counted(device: str) -> list[dict[str, Any]]:
    """Networks and steps a second on a device, for each number of networks."""
    rng = np.random.default_rng(0)
    X, places = rng.uniform(-1, 1, (50, 6)), rng.uniform(-1, 1, (30, 2))
    plain = Observations(X, np.sin(3 * X).sum(1), maximize=False, noise_sd=0.1)
    # No loss stalls within ten steps.
    y = rng.standard_normal(30)
    heat = Observations(places, y, maximize=False, noise_sd=0.1, physics=physics(0))

    def rate(surrogate: Surrogate, data: Observations, work: int) -> float:
        return work / seconds(lambda: surrogate.fit(data, np.random.default_rng(1), None, no_report), device)

    rows = []
    for k in COUNTS:
        plain_networks = NeuralGreedy(networks=k, width=64, depth=2, refinements=STEPS)
        residual = PhysicsInformed("trained", networks=k, refinements=STEPS, memory_gb=40.0)
        adam = PhysicsInformed("trained", networks=k, refinements=0, steps=5 * STEPS, memory_gb=40.0)
        row = {
            "device": torch.cuda.get_device_name() if device == "cuda" else "one core",
            "networks": k,
            "networks of ten steps a second": rate(plain_networks, plain, k),
            "residual networks, Gauss-Newton steps a second": rate(residual, heat, k * STEPS),
            "residual networks, Adam steps a second": rate(adam, heat, k * 5 * STEPS),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    """Run what was asked for, print and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child is not None:
        what, seed, folder = options.child
        if what == "again":
            print(json.dumps([vars(fit) for fit in again(int(seed), Path(folder))]))
            return
        fits, regret = search(int(seed), Path(folder))
        print(json.dumps([[vars(fit) for fit in fits], regret]))
        return
    if options.before is not None:
        found = {"heat": compared(options.before.resolve(), options.seeds)}
    else:
        devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        found = {"rates": [row for device in devices for row in counted(device)]}
    if options.json is not None:
        kept = json.loads(options.json.read_text()) if options.json.exists() else {}
        day = datetime.now(UTC).date().isoformat()
        options.json.write_text(json.dumps({**kept, **found, "date": day}, indent=2) + "\n")


if __name__ == "__main__":
    main()
