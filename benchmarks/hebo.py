"""HEBO (Cowen-Rivers et al., 2022) beside other rivals: distance from the optimum after a few trials, without noise.

    OMP_NUM_THREADS=1 python benchmarks/hebo.py --python PATH [--methods hebo turbo ...] [--trials 20] [--seeds 5]
        [--json FILE]

HEBO 0.3.6 asks for numpy below 1.25, which nothing else here can live with. So it has an environment of its own, whose
interpreter is PATH, and is a process that is told results and asked for designs, with its own defaults but for the
start, which is the same Sobol start for all methods:

    python3.11 -m venv hebo && hebo/bin/pip install numpy==1.24.4 scipy==1.10.1 pandas==2.0.3 scikit-learn==1.3.2 \
        GPy==1.13.2 pymoo==0.6.0 catboost==1.2.8 disjoint-set torch gpytorch==1.14
    hebo/bin/pip install --no-deps HEBO==0.3.6

Problems are the bowl of the tests, Branin and Hartmann-6. FILE keeps what was run, and goes on.
"""

import argparse
import json
import os
import subprocess
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rivals.botorch_log_ei import BotorchLogEI
from fieldcraft.models.rivals.smac import SMAC
from fieldcraft.models.rivals.turbo import TuRBO
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.space import Continuous, SearchSpace

RIVALS = {"turbo": TuRBO, "smac": SMAC, "botorch_log_ei": BotorchLogEI}
# What HEBO's interpreter runs: a line of results in, a line with a design out. Its own prints go to the error stream.
ASK = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import numpy as np, pandas as pd, torch
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO
torch.set_num_threads(1)
seed, d = json.loads(sys.stdin.readline())
np.random.seed(seed)
torch.manual_seed(seed)
names = [f"x{i}" for i in range(d)]
space = DesignSpace().parse([{"name": name, "type": "num", "lb": -1.0, "ub": 1.0} for name in names])
optimizer = HEBO(space, rand_sample=2, scramble_seed=seed)
for line in sys.stdin:
    X, y = json.loads(line)
    optimizer.observe(pd.DataFrame(np.array(X), columns=names), np.array(y).reshape(-1, 1))
    out.write(json.dumps(optimizer.suggest(1)[names].values[0].tolist()) + "\\n")
    out.flush()
"""


def bowl() -> tuple[SearchSpace, Callable[[Array], Array], float]:
    """The bowl of tests/contracts/test_rivals.py, whose least value is 0."""
    space = SearchSpace((Continuous("x", 0.0, 2.0), Continuous("y", -1.0, 1.0)))
    return space, lambda X: (X[:, 0] - 0.3) ** 2 + 0.2 * X[:, 1] ** 2, 0.0


def formula(problem: Branin | Hartmann) -> tuple[SearchSpace, Callable[[Array], Array], float]:
    """Space, objective of encoded points (n, d), and least value of a problem."""
    best = problem.optimum("minimize")
    assert best is not None

    def read(X: Array) -> Array:
        return np.array([problem.function(design)["value"] for design in problem.space.decode(X)])

    return problem.space, read, best.value


PROBLEMS = {"bowl": bowl(), "branin": formula(Branin()), "hartmann": formula(Hartmann())}


def asked(stack: ExitStack, python: str, seed: int, d: int) -> Callable[[Array, Array], Array]:
    """HEBO as a function of new results, encoded (k, d) and (k,), to the next design (1, d)."""
    process = subprocess.Popen(
        [python, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([seed, d]) + "\n")

    def ask(X: Array, y: Array) -> Array:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([X.tolist(), y.tolist()]) + "\n")
        process.stdin.flush()
        return np.array([json.loads(process.stdout.readline())])

    return ask


def regret(problem: str, method: str, seed: int, trials: int, python: str) -> float:
    """Distance of the best of all results from the optimum."""
    space, read, least = PROBLEMS[problem]
    X = Sobol().propose(space, 0, 2 * (space.dimension + 1), np.random.default_rng(seed))
    y, told = read(X), 0
    with ExitStack() as stack:
        hebo = asked(stack, python, seed, space.dimension) if method == "hebo" else None
        while len(y) < trials:
            if hebo is not None:
                new = space.repair(hebo(X[told:], y[told:]))
            else:
                data, rng = Observations(X, y, maximize=False), np.random.default_rng([seed, len(y)])
                new = RIVALS[method]().suggest(data, np.empty((0, space.dimension)), space, 1, rng)
            told = len(y)
            X, y = np.vstack([X, new]), np.append(y, read(new))
    return float(y.min() - least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--methods", nargs="+", default=["hebo", *RIVALS])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cells: dict[str, float] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    for problem in options.problems:
        for method in options.methods:
            began = time.perf_counter()
            for seed in range(options.seeds):
                key = f"{problem} {method} {options.trials} {seed}"
                if key not in cells:
                    cells[key] = regret(problem, method, seed, options.trials, options.python)
                    if options.json:
                        options.json.write_text(json.dumps(cells, indent=1) + "\n")
            found = [cells[f"{problem} {method} {options.trials} {seed}"] for seed in range(options.seeds)]
            told = ", ".join(f"{each:.2g}" for each in found)
            print(f"{problem:10}{method:16}{told}   {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
