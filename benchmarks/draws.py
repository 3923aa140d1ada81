"""What a draw's minimiser finds in two to twenty variables, sought everywhere and about the best design.

    python benchmarks/draws.py --json FILE [--seeds 5] [--problems NAME ...] [--methods NAME ...]

Levy-12 and Rastrigin-20 are those of `studies/sto-bnts.yaml`: 12 Sobol designs, 52 trials, noise of 0.1 sd(f); where
nothing else is said here there is none. "Moved" is a function of which the optimum lies at a place drawn within half of
the box: a search that tends to the middle finds what lies near it. `control-12` are the gains of a feedback that holds
three coupled pendulums upright, by the logarithm of its cost. Methods are surrogates with `thompson`, `search:
everywhere` and `about_best`; `gp_ei`, `gp_ucb` and `random` stand beside them.

FILE has the least regret at each campaign's start and end, its CPU seconds, and medians over its proposals: the share
of coordinates at a bound, the distance to the nearest trial over sqrt(d), the score (of `thompson` minus the draw's
value), mean and standard deviation there, and the least mean at the trials, in standardised targets. Campaigns that are
in FILE are not run again.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import means
from fieldcraft.models.surrogates.deep_ensemble import DeepEnsemble
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.problems.ackley import Ackley
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.dropwave import DropWave
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.problems.levy import Levy
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang
from fieldcraft.physics.space import Continuous, SearchSpace

NOISE = 0.1
"""Standard deviation of the noise, where there is any, in those of the function over the box."""


def pendulums(gains: Array) -> Array:
    """log10 of the cost of feedbacks (n, 12) that are to hold three pendulums upright, shape (n,).

    The pendulums are coupled by springs and moved by two bounded torques; 7.5 s in steps of 0.05 s.
    """
    feedback, n = 30.0 * gains.reshape(-1, 2, 6), len(gains)
    angles, speeds, cost = np.tile([0.25, -0.15, 0.2], (n, 1)), np.zeros((n, 3)), np.zeros(n)
    lever = np.array([[1.0, 0.3, 0.0], [0.0, 0.3, 1.0]])
    for _ in range(150):
        state = np.concatenate([angles, speeds], axis=1)
        torques = np.clip(-(feedback @ state[:, :, None])[:, :, 0], -20, 20)
        a, b, c = angles.T
        springs = 2.0 * np.stack([b - a, a - 2 * b + c, b - c], axis=1)
        moved = speeds + 0.05 * (9.81 * np.sin(angles) * 0.5 + springs - 0.1 * speeds + torques @ lever)
        speeds = np.clip(moved, -10, 10)
        angles = np.clip(angles + 0.05 * speeds, -np.pi, np.pi)
        cost += 0.05 * ((angles**2).sum(1) + 0.1 * (speeds**2).sum(1) + 0.001 * (torques**2).sum(1))
    return np.asarray(np.log10(cost))


@dataclass(frozen=True)
class Task:
    """A function to be minimised.

    Args:
        make: Function that makes a problem with ``space``, ``exact`` and ``optimum``; None for the pendulums.
        start: Sobol designs.
        trials: Designs in all.
        noisy: True for noise of ``NOISE``.
        moved: Half of the width in which the optimum's place is drawn, in the variables' unit.
    """

    make: Callable[[], Any] | None
    start: int
    trials: int
    noisy: bool = False
    moved: float = 0.0

    @cached_property
    def problem(self) -> Any:
        """The problem; None for the pendulums."""
        return None if self.make is None else self.make()

    @cached_property
    def space(self) -> SearchSpace:
        """The box."""
        if self.problem is None:
            return SearchSpace(tuple(Continuous(f"k{i}", -1.0, 1.0) for i in range(12)))
        space: SearchSpace = self.problem.space
        return space

    def regret(self, X: Array) -> Array:
        """Regrets (n,) of encoded X (n, d); the pendulums' cost itself."""
        if self.problem is None:
            return pendulums(X)
        values = np.array([list(design.values()) for design in self.space.decode(X)])
        shift = np.random.default_rng(5).uniform(-self.moved, self.moved, self.space.dimension)
        return np.asarray(self.problem.exact(values - shift) - self.problem.optimum("minimize").value)


TASKS: Mapping[str, Task] = {
    "levy-12": Task(lambda: Levy(12), 12, 52, noisy=True),
    "levy-12 moved": Task(lambda: Levy(12), 12, 52, noisy=True, moved=5.0),
    "rastrigin-20": Task(lambda: Rastrigin(20), 12, 52, noisy=True),
    "rastrigin-20 moved": Task(lambda: Rastrigin(20), 12, 52, noisy=True, moved=2.5),
    "ackley-12 moved": Task(lambda: Ackley(12, -5.0, 5.0), 12, 52, moved=2.5),
    "control-12": Task(None, 12, 52),
    "styblinski_tang-10": Task(lambda: StyblinskiTang(dimension=10), 22, 62),
    "hartmann-6": Task(Hartmann, 14, 54),
    "branin": Task(Branin, 6, 30),
    "dropwave": Task(DropWave, 6, 36),
}
DRAWN: Mapping[str, Callable[[], Any]] = {
    "gp_ts": ExactGP,
    "sto_bnts_linear": SampledLinear,
    "sto_bnts": SampledNetwork,
    "neural_bo": TangentNetwork,
    "neural_ts": lambda: TangentNetwork(draw="independent"),
    "deep_ensemble": DeepEnsemble,
}
METHODS: Mapping[str, Callable[[], tuple[Any, Any, Any] | None]] = {
    "random": lambda: None,
    "gp_ei": lambda: (ExactGP(), LogEI(), Multistart()),
    "gp_ucb": lambda: (ExactGP(), UCB(), Multistart()),
    **{
        f"{name}, {search}": lambda made=made, search=search: (made(), Thompson(search), Multistart())
        for name, made in DRAWN.items()
        for search in ("everywhere", "about_best")
    },
}


def campaign(task: Task, method: str, seed: int) -> dict[str, float]:
    """One campaign, as the file has it."""
    began, space, told = time.process_time(), task.space, list[dict[str, float]]()
    none, words = np.empty((0, space.dimension)), METHODS[method]()
    X = Sobol().propose(space, 0, task.start, np.random.default_rng(seed))
    sd = NOISE * float(task.regret(space.sample(2000, np.random.default_rng(99))).std()) if task.noisy else 0.0
    noise = sd * np.random.default_rng([seed, 7]).standard_normal(task.trials)
    if words is None:
        X = np.vstack([X, space.sample(task.trials - task.start, np.random.default_rng([seed, 3]))])
    while len(X) < task.trials:
        t = len(X)
        y, stated = task.regret(X) + noise[:t], sd if task.noisy else None
        data = Observations(X, y, maximize=False, noise_sd=stated, exact=not task.noisy, space=space)
        algorithm = Algorithm(Sobol(), task.start, *words)
        posterior = algorithm.fit(data, np.random.default_rng([seed, t, 1]))
        found = algorithm.propose(posterior, data, none, space, 1, np.random.default_rng([seed, t, 2]))
        with torch.no_grad():
            expected, variance = (float(each[0]) for each in posterior.mean_var(torch.tensor(found.X)))
            best = float(means(posterior, torch.tensor(X)).min())
        told.append(
            {
                "at_bounds": float((np.abs(found.X[0]) > 1 - 1e-6).mean()),
                "distance": float(np.linalg.norm(X - found.X, axis=1).min()) / space.dimension**0.5,
                "score": float(found.value[0]),
                "mean": expected,
                "sd": variance**0.5,
                "best_mean": best,
            }
        )
        X = np.vstack([X, found.X])
    regrets = task.regret(X)
    where = {key: float(np.median([each[key] for each in told])) for key in (told[0] if told else ())}
    cpu = time.process_time() - began
    return {"start": float(regrets[: task.start].min()), "end": float(regrets.min()), "cpu": cpu, **where}


def main() -> None:
    """Run the campaigns that the file lacks, and print means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--problems", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for problem in options.problems:
        for method in options.methods:
            for seed in range(options.seeds):
                kept = json.loads(options.json.read_text()) if options.json.exists() else {}
                if (key := f"{problem} | {method} | {seed}") not in kept:
                    kept[key] = campaign(TASKS[problem], method, seed)
                    options.json.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            each = [kept[f"{problem} | {method} | {seed}"] for seed in range(options.seeds)]
            ends = [one["end"] for one in each]
            error = stdev(ends) / len(ends) ** 0.5 if len(ends) > 1 else float("nan")
            start, cpu = mean(one["start"] for one in each), mean(one["cpu"] for one in each)
            said = f"{problem:20} {method:28} {start:9.3g} -> {mean(ends):9.3g} +- {error:.2g}"
            print(f"{said}   {len(ends)} seeds, {cpu:.1f} CPU s each", flush=True)


if __name__ == "__main__":
    main()
