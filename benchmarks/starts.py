"""What campaigns find after a short and after a long start.

    python benchmarks/starts.py --json FILE [--seeds 10] [--problems NAME ...] [--methods NAME ...]

The problems are those of benchmarks/priors.py, and the chips on 48 cells, with noise of 0.01 sd(f). A campaign begins
with so many Sobol designs: 2 (d + 1), but no more than half of its trials; d + 1; 6; and 3. FILE has the least regret
(chips: the temperature above 100.77 degC) after a quarter, a half, three quarters and all of the trials. What is in
FILE is not run again.
"""

import argparse
import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from draws import Task
from priors import METHODS, NOISE, TASKS

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposer import Proposer
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.physics.space import SearchSpace

BEST = 100.77  # degC, the best that is known of the chips


class Heated(Task):
    """The chips on 48 cells: a run of the simulator for each design."""

    @cached_property
    def space(self) -> SearchSpace:
        """The box."""
        return Chips().space

    def regret(self, X: Array) -> Array:
        """Temperatures above the best (n,), K, of encoded designs (n, d)."""
        problem, simulator, rng = Chips(), HeatedPlateFindiff(48), np.random.default_rng(0)
        name = problem.outputs[0].name
        return np.array(
            [
                float(problem.evaluate(each, simulator.run(problem, each, rng))[name]) - BEST
                for each in self.space.decode(X)
            ]
        )


PROBLEMS = {**TASKS, "chips-4": Heated(None, 10, 40)}


def starts_of(task: Task) -> Iterator[int]:
    """Numbers of designs to begin with, each once, the greatest first."""
    d = task.space.dimension
    yield from dict.fromkeys((min(2 * (d + 1), task.trials // 2), d + 1, 6, 3))


def campaign(
    task: Task, surrogate: Any, start: int, seed: int, first: Proposer | None = None, acquisition: Any = None
) -> list[float]:
    """Least regret of one campaign after a quarter, a half, three quarters and all of its trials.

    Args:
        task: The function.
        surrogate: The surrogate.
        start: Designs to begin with.
        seed: Seed of the campaign.
        first: What proposes those; None for the Sobol sequence.
        acquisition: The acquisition; None for ``log_ei``.
    """
    space, some = task.space, 60 if isinstance(task, Heated) else 2000  # designs that sd(f) is taken from
    X = (first or Sobol()).propose(space, 0, start, np.random.default_rng(seed))
    sd = NOISE * float(task.regret(space.sample(some, np.random.default_rng(99))).std())
    noise = sd * np.random.default_rng([seed, 7]).standard_normal(task.trials)
    algorithm = Algorithm(Sobol(), start, surrogate, acquisition or LogEI(), Multistart())
    found = task.regret(X)
    while (t := len(X)) < task.trials:
        data = Observations(X, found + noise[:t], maximize=False, noise_sd=sd, space=space)
        posterior = algorithm.fit(data, np.random.default_rng([seed, t, 1]))
        chosen = algorithm.propose(posterior, data, X[:0], space, 1, np.random.default_rng([seed, t, 2]))
        X, found = np.vstack([X, chosen.X]), np.append(found, task.regret(chosen.X))
    least = np.minimum.accumulate(found)
    return [float(least[task.trials * quarter // 4 - 1]) for quarter in (1, 2, 3, 4)]


def main() -> None:
    """Run what the file lacks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--problems", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    known: dict[str, list[float]] = json.loads(options.json.read_text()) if options.json.exists() else {}
    for problem in options.problems:
        for method in options.methods:
            for start in starts_of(PROBLEMS[problem]):
                keys = [f"{problem} | {method} | {start} | {seed}" for seed in range(options.seeds)]
                for seed, key in enumerate(keys):
                    if key not in known:
                        known[key] = campaign(PROBLEMS[problem], METHODS[method](), start, seed)
                        options.json.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
                columns = zip(*(known[key] for key in keys), strict=True)
                said = "  ".join(f"{mean(each):.3g} ({stdev(each) / len(each) ** 0.5:.2g})" for each in columns)
                print(f"{problem:20} {method:6} {start:3} designs first: {said}", flush=True)


if __name__ == "__main__":
    main()
