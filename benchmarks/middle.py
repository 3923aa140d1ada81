"""What campaigns find that begin with the middle of the box, beside those that begin with Sobol designs alone.

    python benchmarks/middle.py --json FILE [--seeds 5] [--problems NAME ...] [--methods NAME ...]

Both begin with d + 1 designs, at least six, noise is 0.01 sd(f), and the problems are those of benchmarks/starts.py
with optima that lie elsewhere than the middle: "moved" is a place drawn in the inner half of the box. "At bounds" the
function's own optimum is drawn from a box wider than the space by a half, so that the best design is at bounds in about
a third of its coordinates; the regret of Levy's function there is above its own least value, which no design reaches.
FILE has the least regret after a quarter, a half, three quarters and all of the trials. What is in FILE is not run
again.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from draws import Task
from priors import METHODS
from starts import PROBLEMS as STARTED
from starts import campaign

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.observations import Array
from fieldcraft.models.proposer import Proposer
from fieldcraft.models.proposers.centred import Centred
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.problems.levy import Levy
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.space import Continuous, SearchSpace


class Bowl(Task):
    """A quadratic function of ten variables with curvatures from 1 to 100 and its least value at bounds."""

    @cached_property
    def space(self) -> SearchSpace:
        """The box."""
        return SearchSpace(tuple(Continuous(f"x{i}", -1.0, 1.0) for i in range(10)))

    def regret(self, X: Array) -> Array:
        """Regrets (n,) of encoded X (n, 10)."""
        centre = np.random.default_rng(5).uniform(-1.5, 1.5, 10)
        curvatures = np.logspace(0, 2, 10)
        least = curvatures @ (np.clip(centre, -1, 1) - centre) ** 2
        return np.asarray(((X - centre) ** 2) @ curvatures - least)


PROBLEMS: Mapping[str, Task] = {
    "levy-10 moved": Task(lambda: Levy(dimension=10), 12, 50, moved=5.0),
    "ackley-10 moved": STARTED["ackley-10 moved"],
    "rastrigin-20 moved": Task(lambda: Rastrigin(20), 22, 60, moved=2.56),
    "levy-50 moved": Task(lambda: Levy(dimension=50), 50, 110, moved=5.0),
    "control-12": STARTED["control-12"],
    "michalewicz-10": STARTED["michalewicz-10"],
    "styblinski_tang-10": STARTED["styblinski_tang-10"],
    "levy-10 at bounds": Task(lambda: Levy(dimension=10), 12, 50, moved=15.0),
    "bowl-10 at bounds": Bowl(None, 12, 50),
    "hartmann-6": STARTED["hartmann-6"],
    "chips-4": STARTED["chips-4"],
    "branin": STARTED["branin"],
}
SURROGATES: Mapping[str, Callable[[], Any]] = {**METHODS, "neural_bo": TangentNetwork}
FIRST: Mapping[str, Proposer] = {"sobol": Sobol(), "centred": Centred()}


def main() -> None:
    """Run what the file lacks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--problems", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=SURROGATES, default=list(METHODS))
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    known: dict[str, list[float]] = json.loads(options.json.read_text()) if options.json.exists() else {}
    for problem in options.problems:
        task = PROBLEMS[problem]
        start = max(6, task.space.dimension + 1)
        for method in options.methods:
            for first, proposer in FIRST.items():
                keys = [f"{problem} | {method} | {first} | {seed}" for seed in range(options.seeds)]
                for seed, key in enumerate(keys):
                    if key not in known:
                        acquisition = Thompson() if method == "neural_bo" else LogEI()
                        known[key] = campaign(task, SURROGATES[method](), start, seed, proposer, acquisition)
                        options.json.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
                columns = zip(*(known[key] for key in keys), strict=True)
                said = "  ".join(f"{mean(each):.3g} ({stdev(each) / len(each) ** 0.5:.2g})" for each in columns)
                print(f"{problem:20} {method:6} {first:8} first: {said}", flush=True)


if __name__ == "__main__":
    main()
