"""What surrogates find in six to twelve dimensions: regret after 70 trials.

    python benchmarks/dimensions.py [--seeds 5] [--surrogates NAME ...] [--problems NAME ...] [--json FILE]

Twenty Sobol trials, then one trial at a time by `thompson` and by `log_ei` (`exact_gp` and `auto`: `log_ei`), no noise
and none stated; Ackley on [-5, 5]. Run in an earlier checkout it says what that one finds. Results in FILE are not run
again.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.problems.ackley import Ackley
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.problems.levy import Levy
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang

START, TRIALS = 20, 70
PROBLEMS: Mapping[str, Callable[[], Any]] = {
    "ackley-10": lambda: Ackley(10, -5.0, 5.0),
    "levy-12": lambda: Levy(12),
    "hartmann-6": Hartmann,
    "styblinski_tang-10": lambda: StyblinskiTang(dimension=10),
}
SURROGATES: Mapping[str, Callable[[], Any]] = {
    "sampled_linear": SampledLinear,
    "sampled_network": SampledNetwork,
    "tangent_network": TangentNetwork,
    "exact_gp": ExactGP,
    "auto": Auto,
}
ACQUISITIONS: Mapping[str, Callable[[], Any]] = {"thompson": Thompson, "log_ei": LogEI}


def regret(problem: Any, surrogate: Any, acquisition: Any, seed: int) -> float:
    """Regret of the least result of one campaign."""
    space = problem.space

    def read(X: Array) -> Array:
        found: Array = problem.exact(np.array([list(design.values()) for design in space.decode(X)]))
        return found

    algorithm = Algorithm(Sobol(), START, surrogate, acquisition, Multistart())
    X = algorithm.initial.propose(space, 0, START, np.random.default_rng(seed))
    none = np.empty((0, space.dimension))
    while len(X) < TRIALS:
        data, t = Observations(X, read(X), maximize=False), len(X)
        posterior = algorithm.fit(data, np.random.default_rng([seed, t, 1]))
        found = algorithm.propose(posterior, data, none, space, 1, np.random.default_rng([seed, t, 2]))
        X = np.vstack([X, found.X])
    return float(read(X).min() - problem.optimum("minimize").value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--surrogates", nargs="+", choices=SURROGATES, default=list(SURROGATES))
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept: dict[str, float] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    for problem in options.problems:
        for surrogate in options.surrogates:
            for acquisition in ACQUISITIONS if surrogate not in ("exact_gp", "auto") else ("log_ei",):
                began, found = time.process_time(), list[float]()
                for seed in range(options.seeds):
                    key = f"{problem} {surrogate} {acquisition} {seed}"
                    if key not in kept:
                        made = SURROGATES[surrogate](), ACQUISITIONS[acquisition]()
                        kept[key] = regret(PROBLEMS[problem](), *made, seed)
                        if options.json:
                            options.json.write_text(json.dumps(kept, indent=1) + "\n")
                    found.append(kept[key])
                error = stdev(found) / len(found) ** 0.5 if len(found) > 1 else float("nan")
                said = f"{problem:20} {surrogate:16} x {acquisition:9} {mean(found):9.3g} +- {error:.2g}"
                print(f"{said}   {len(found)} seeds, {time.process_time() - began:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
