"""What processes predict, and what campaigns find, under their priors of length scales.

    python benchmarks/priors.py --json FILE [--seeds 5] [--problems NAME ...] [--methods NAME ...]

Run in an earlier checkout it says what that one finds. `exact_gp` and `additive_gp` are fitted to 15, 30 and 60 Sobol
designs of each problem (Branin: 6, 12 and 25), two draws of each, and to 10, 25 and 50 of the speed reducer's first six
outputs: FILE has the mean log density of 300 random points in standardised targets, and the root mean square error
there in standard deviations of the function. The campaigns have noise of 0.01 sd(f): FILE has the least regret at the
end and the CPU seconds. What is in FILE is not run again.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from draws import Task

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.problems.ackley import Ackley
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.problems.levy import Levy
from fieldcraft.physics.problems.michalewicz import Michalewicz
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.problems.speed_reducer import SpeedReducer
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang
from fieldcraft.physics.space import SearchSpace

NOISE = 0.01
"""Standard deviation of the noise, in those of the function over the box."""

TASKS: Mapping[str, Task] = {
    "styblinski_tang-10": Task(lambda: StyblinskiTang(dimension=10), 20, 80),
    "hartmann-6": Task(Hartmann, 10, 50),
    "ackley-10 moved": Task(lambda: Ackley(10), 12, 50, moved=16.0),
    "levy-10": Task(lambda: Levy(dimension=10), 12, 50),
    "michalewicz-10": Task(lambda: Michalewicz(dimension=10), 12, 50),
    "rastrigin-20": Task(lambda: Rastrigin(20), 22, 60),
    "control-12": Task(None, 12, 52),
    "branin": Task(Branin, 6, 30),
}
METHODS: Mapping[str, Callable[[], Any]] = {"gp_ei": ExactGP, "auto": Auto}
FITTED: Mapping[str, Callable[[], Any]] = {"exact_gp": ExactGP, "additive_gp": AdditiveGP}
POINTS = 300


def foretold(
    surrogate: Any, space: SearchSpace, function: Callable[[Array], Array], sizes: tuple[int, ...], seeds: int
) -> dict[str, float]:
    """Mean log density and error at random points, of fits to Sobol designs of each size.

    Args:
        surrogate: What is fitted.
        space: The box.
        function: Outputs (n, k) of encoded designs (n, d), each of which is learnt by itself.
        sizes: Numbers of designs.
        seeds: Draws of each number.
    """
    Z = space.sample(POINTS, np.random.default_rng(5))
    true, densities, errors = function(Z), list[float](), list[float]()
    for n in sizes:
        for seed in range(seeds):
            X = Sobol().propose(space, 0, n, np.random.default_rng(seed))
            for values, y in zip(true.T, function(X).T, strict=True):
                data = Observations(X, y, maximize=False, noise_sd=NOISE * float(y.std()), space=space)
                found = surrogate.fit(data, np.random.default_rng(1), None, no_report)
                with torch.no_grad():
                    expected, variance = (part.numpy() for part in found.mean_var(torch.tensor(Z)))
                targets = data.scaling.to_target(values)
                squares, total = (targets - expected) ** 2, variance + NOISE**2
                densities.append(float(-0.5 * (np.log(2 * np.pi * total) + squares / total).mean()))
                errors.append(float(np.sqrt(squares.mean()) / targets.std()))
    return {"density": mean(densities), "error": mean(errors)}


def column(task: Task, X: Array) -> Array:
    """Regrets of encoded designs (n, d), shape (n, 1)."""
    return task.regret(X)[:, None]


def outputs_of(problem: Any) -> Callable[[Array], Array]:
    """The first six outputs of encoded designs (n, d), shape (n, k)."""

    def outputs(X: Array) -> Array:
        rows = [list(problem.function(design).values()) for design in problem.space.decode(X)]
        return np.array(rows)[:, :6]

    return outputs


def campaign(task: Task, method: str, seed: int) -> dict[str, float]:
    """One campaign, as the file has it."""
    began, space = time.process_time(), task.space
    X = Sobol().propose(space, 0, task.start, np.random.default_rng(seed))
    sd = NOISE * float(task.regret(space.sample(2000, np.random.default_rng(99))).std())
    noise = sd * np.random.default_rng([seed, 7]).standard_normal(task.trials)
    algorithm = Algorithm(Sobol(), task.start, METHODS[method](), LogEI(), Multistart())
    while len(X) < task.trials:
        t = len(X)
        data = Observations(X, task.regret(X) + noise[:t], maximize=False, noise_sd=sd, space=space)
        posterior = algorithm.fit(data, np.random.default_rng([seed, t, 1]))
        found = algorithm.propose(posterior, data, X[:0], space, 1, np.random.default_rng([seed, t, 2]))
        X = np.vstack([X, found.X])
    return {"end": float(task.regret(X).min()), "cpu": time.process_time() - began}


def kept(file: Path, key: str, make: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What the file has under a key; made and written if it lacks it."""
    results: dict[str, dict[str, float]] = json.loads(file.read_text()) if file.exists() else {}
    if key not in results:
        results[key] = make()
        file.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return results[key]


def main() -> None:
    """Run what the file lacks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--problems", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, make in FITTED.items():
        box = SpeedReducer().space
        fits = {f"speed_reducer | {name}": partial(foretold, make(), box, outputs_of(SpeedReducer()), (10, 25, 50), 1)}
        for problem in options.problems:
            sizes = (6, 12, 25) if problem == "branin" else (15, 30, 60)
            task = TASKS[problem]
            fits[f"{problem} | {name}"] = partial(foretold, make(), task.space, partial(column, task), sizes, 2)
        for key, learnt in fits.items():
            found = kept(options.json, key, learnt)
            print(f"{key:34} density {found['density']:6.2f}, error {found['error']:.3f}", flush=True)
    for problem in options.problems:
        for method in options.methods:
            runs = {
                f"{problem} | {method} | {n}": partial(campaign, TASKS[problem], method, n)
                for n in range(options.seeds)
            }
            each = [kept(options.json, key, run) for key, run in runs.items()]
            ends = [one["end"] for one in each]
            error = stdev(ends) / len(ends) ** 0.5 if len(ends) > 1 else float("nan")
            cpu = mean(one["cpu"] for one in each)
            print(f"{problem:20} {method:8} {mean(ends):9.3g} +- {error:.2g}   {len(ends)} seeds, {cpu:.1f} CPU s each")


if __name__ == "__main__":
    main()
