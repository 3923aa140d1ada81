"""Best feasible value with unknown constraints on their own scale, and on the one that the evidence chooses.

    OMP_NUM_THREADS=1 python benchmarks/decades.py [--only cantilever spring] [--seeds 5] [--json FILE]

Each line is a problem, an algorithm, its trials, and the best feasible values of the seeds without and with the bilog
transform (none: no feasible trial), the optimum, the CPU seconds of both, and the share of the fits that took it.
"""

import argparse
import json
import os
import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.digests import stamped
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.constrained import ConstrainedFormula
from fieldcraft.physics.problems.constrained_ackley import ConstrainedAckley
from fieldcraft.physics.problems.constrained_branin import ConstrainedBranin
from fieldcraft.physics.problems.constrained_hartmann import ConstrainedHartmann
from fieldcraft.physics.problems.gas_compressor import GasCompressor
from fieldcraft.physics.problems.speed_reducer import SpeedReducer


@dataclass(frozen=True)
class Cantilever(ConstrainedFormula):
    """Mass of a beam (kg) by width and height (mm), its deflection over the limit less one."""

    bounds = ((10.0, 60.0), (10.0, 120.0))
    constraints = 1
    spread = 10.0
    best = ((10.0, 98.3878), 7.72344)

    def exact(self, points: Array) -> Array:
        w, h = np.asarray(points).T / 1000
        return 7850 * w * h

    def exact_constraints(self, points: Array) -> Array:
        w, h = np.asarray(points).T / 1000
        return (4e6 / (210e9 * w * h**3) / 2 - 1)[:, None]


@dataclass(frozen=True)
class Spring(ConstrainedFormula):
    """Weight of a spring by the diameters of wire and coil and the number of coils (Arora, 1989)."""

    bounds = ((0.05, 2.0), (0.25, 1.3), (2.0, 15.0))
    constraints = 4
    spread = 10.0
    best = ((0.051689, 0.356718, 11.288966), 0.012665)

    def exact(self, points: Array) -> Array:
        d, D, N = np.asarray(points).T
        return (N + 2) * D * d**2

    def exact_constraints(self, points: Array) -> Array:
        d, D, N = np.asarray(points).T
        shear = (4 * D**2 - d * D) / (12566 * (D * d**3 - d**4)) + 1 / (5108 * d**2) - 1
        return np.stack([1 - D**3 * N / (71785 * d**4), shear, 1 - 140.45 * d / (D**2 * N), (D + d) / 1.5 - 1], axis=1)


@dataclass(frozen=True)
class Vessel(ConstrainedFormula):
    """Cost of a pressure vessel by two thicknesses, radius and length (Sandgren, 1990; continuous)."""

    bounds = ((0.0625, 2.0), (0.0625, 2.0), (10.0, 200.0), (10.0, 240.0))
    constraints = 3
    spread = 1e5
    best = ((0.7276, 0.3596, 37.699, 240.0), 5804.4)

    def exact(self, points: Array) -> Array:
        a, b, r, length = np.asarray(points).T
        return 0.6224 * a * r * length + 1.7781 * b * r**2 + 3.1661 * a**2 * length + 19.84 * a**2 * r

    def exact_constraints(self, points: Array) -> Array:
        a, b, r, length = np.asarray(points).T
        volume = 1296000 - np.pi * r**2 * length - 4 / 3 * np.pi * r**3
        return np.stack([0.0193 * r - a, 0.00954 * r - b, volume], axis=1)


PROBLEMS: dict[str, tuple[ConstrainedFormula, int]] = {
    "cantilever": (Cantilever(), 12),
    "gas": (GasCompressor(), 25),
    "spring": (Spring(), 25),
    "vessel": (Vessel(), 30),
    "ackley": (ConstrainedAckley(), 40),
    "branin": (ConstrainedBranin(), 18),
    "hartmann": (ConstrainedHartmann(), 24),
    "reducer": (SpeedReducer(), 26),
}
METHODS: dict[str, dict[str, Any]] = {
    "auto": {"surrogate": Auto(), "acquisition": LogEI()},
    "cei": {
        "surrogate": ExactGP(),
        "acquisition": LogEI(),
        "constraints": Constraints(surrogate=ExactGP(), rule=Probability()),
    },
    "config_opt": {
        "surrogate": ExactGP(),
        "acquisition": UCB(),
        "constraints": Constraints(rule=Bound(fallback="empty")),
    },
    "neural_cbo": {
        "surrogate": TangentNetwork(),
        "acquisition": LogEI(),
        "constraints": Constraints(rule=Probability()),
    },
}


def campaign(problem: ConstrainedFormula, method: str, trials: int, seed: int, *, chosen: bool) -> dict[str, Any]:
    """Best feasible value, CPU seconds, and the share of fits with a transform.

    ``chosen`` is False for constraints on their own scale: a fit that goes on from a state without one keeps it.
    """
    space, began, bent = problem.space, time.process_time(), list[bool]()
    d, start = space.dimension, 2 * (space.dimension + 1)
    algorithm = Algorithm(Sobol(), start, maximizer=Multistart(), **METHODS[method])
    X = algorithm.begin(space, 0, start, np.random.default_rng([seed, 0]))
    while True:
        points = np.array([[design[name] for name in space.names] for design in space.decode(X)])
        y, c = problem.exact(points), problem.exact_constraints(points)
        if len(X) == trials:
            break
        data = Observations(X, y, maximize=False, exact=True, constraints=c)
        rng = np.random.default_rng([seed, len(X), 1])
        posterior = algorithm.fit(data, rng, None if chosen else stamped(data))
        bent.append(any(posterior.bilogs))
        rng = np.random.default_rng([seed, len(X), 2])
        X = np.vstack([X, algorithm.propose(posterior, data, np.empty((0, d)), space, 1, rng).X])
    met = (c <= 0).all(axis=1)
    best = float(y[met].min()) if met.any() else None
    return {"best": best, "seconds": time.process_time() - began, "bent": float(np.mean(bent))}


def main() -> None:
    """Run what was asked for."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["auto", "cei"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in asked.only:
        problem, trials = PROBLEMS[name]
        for method in asked.methods:
            each = {
                chosen: [campaign(problem, method, trials, 1 + k, chosen=chosen) for k in range(asked.seeds)]
                for chosen in (False, True)
            }
            row = {"problem": name, "method": method, "trials": trials, "optimum": problem.best[1]}
            for chosen, word in ((False, "own"), (True, "chosen")):
                row[word] = [run["best"] for run in each[chosen]]
                row[f"seconds_{word}"] = round(sum(run["seconds"] for run in each[chosen]), 2)
            row["bent"] = [round(run["bent"], 2) for run in each[True]]
            rows.append(row)
            print(row, flush=True)
    if asked.json:
        found = {"date": datetime.now(UTC).date().isoformat(), "seeds": asked.seeds, "runs": rows}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
