"""Hypervolume of campaigns with two objectives: ours beside BoTorch's own loop and random designs.

    OMP_NUM_THREADS=1 python benchmarks/objectives.py [--seeds 5] [--methods gp_ehvi ...] [--json FILE]

All methods of a seed begin with the same 2 (d + 1) Sobol designs and go on with one design at a time. ``botorch`` is
qLogNEHVI as BoTorch's tutorial has it: a SingleTaskGP an output on the unit cube, standardised outputs, the problem's
reference point, ``prune_baseline``, 10 restarts from 512 raw samples. Results have no noise. A file that is there is
gone on with: cells that it holds are not run again.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim.optimize import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from fieldcraft.flows.wiring.environment import outputs_of
from fieldcraft.models.acquisition import Acquisition
from fieldcraft.models.acquisitions.hypervolume_thompson import HypervolumeThompson
from fieldcraft.models.acquisitions.log_nehvi import LogNEHVI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.numerics.randomness import seeded
from fieldcraft.models.observations import Aim, Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import Surrogate
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.trend_gp import TrendGP
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.problems.branin_currin import BraninCurrin
from fieldcraft.physics.problems.c2_dtlz2 import C2Dtlz2
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.pareto import gains

PROBLEMS: Mapping[str, tuple[Problem, int]] = {"branin_currin": (BraninCurrin(), 86), "c2_dtlz2": (C2Dtlz2(), 50)}
FEWER = {("branin_currin", "botorch"): 40}
"""Trials of a method that takes long, in place of the problem's."""
Choose = Callable[[Problem, Objective, Array, list[dict[str, float]], np.random.Generator], Array]


def ours(surrogate: Surrogate, acquisition: Acquisition) -> Choose:
    """A proposal by a surrogate, an acquisition and multistart."""
    algorithm = Algorithm(Sobol(), 1, surrogate, acquisition, Multistart())

    def choose(
        problem: Problem, objective: Objective, X: Array, read: list[dict[str, float]], rng: np.random.Generator
    ) -> Array:
        m, values = len(objective.goals), np.array([list(outputs.values()) for outputs in read])
        data = Observations(
            X,
            values[:, 0],
            objective.maximize,
            exact=True,
            space=problem.space,
            aims=tuple(Aim(goal.maximize, goal.reference) for goal in objective.goals),
            further=values[:, 1:m],
            constraints=values[:, m:],
        )
        posterior = algorithm.fit(data, rng)
        none = np.empty((0, X.shape[1]))
        return algorithm.propose(posterior, data, none, problem.space, 1, rng, proposed=len(X)).X

    return choose


def botorch(
    problem: Problem, objective: Objective, X: Array, read: list[dict[str, float]], rng: np.random.Generator
) -> Array:
    """A proposal by BoTorch's qLogNEHVI."""
    m, U = len(objective.goals), torch.tensor((X + 1) / 2)
    Y = -torch.tensor([list(outputs.values()) for outputs in read], dtype=torch.float64)
    worst = -torch.tensor([goal.reference for goal in objective.goals], dtype=torch.float64)
    Y[:, m:] /= Y[:, m:].std(dim=0)  # BoTorch smooths the step at 0 on one scale for all
    with seeded(rng):
        models = [SingleTaskGP(U, Y[:, [k]]) for k in range(Y.shape[1])]
        for model in models:
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = qLogNoisyExpectedHypervolumeImprovement(
            ModelListGP(*models),
            worst,
            U,
            objective=IdentityMCMultiOutputObjective(outcomes=list(range(m))),
            constraints=[lambda Z, k=k: -Z[..., k] for k in range(m, Y.shape[1])] or None,
            prune_baseline=True,
        )
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, X.shape[1])
        options = {"batch_limit": 5, "maxiter": 200}
        best, _ = optimize_acqf(acquisition, box, q=1, num_restarts=10, raw_samples=512, options=options)
    return np.asarray(2 * best.detach().numpy() - 1)


def at_random(
    problem: Problem, objective: Objective, X: Array, read: list[dict[str, float]], rng: np.random.Generator
) -> Array:
    """A design at random."""
    return problem.space.sample(1, rng)


METHODS: Mapping[str, Choose] = {
    "gp_ehvi": ours(TrendGP(), LogNEHVI()),
    "hypervolume_thompson": ours(ExactGP(), HypervolumeThompson()),
    "botorch": botorch,
    "random": at_random,
}


def campaign(problem: Problem, choose: Choose, seed: int, trials: int) -> dict[str, Any]:
    """One campaign: the hypervolume after each trial, and the CPU seconds of all proposals."""
    objective = Objective.of(outputs_of(problem), None)
    space, spent = problem.space, 0.0
    X = Sobol().propose(space, 0, 2 * (space.dimension + 1), np.random.default_rng([seed, 0]))
    read = answers(problem, X)
    while len(X) < trials:
        began = time.process_time()
        x = choose(problem, objective, X, read, np.random.default_rng([seed, len(X)]))
        spent += time.process_time() - began
        X, read = np.vstack([X, x]), read + answers(problem, x)
    reference = tuple(goal.reference or 0.0 for goal in objective.goals)
    volumes = np.cumsum(gains(objective, read, reference))
    return {"hypervolume": [float(f"{volume:.6g}") for volume in volumes], "seconds": round(spent, 2)}


def answers(problem: Any, X: Array) -> list[dict[str, float]]:
    """Outputs of encoded designs (n, d)."""
    return [dict(problem.function(design)) for design in problem.space.decode(X)]


def told(cells: Sequence[Mapping[str, Any]], problem: str, method: str) -> str:
    """Hypervolumes of all seeds after 40 trials and after the last, and CPU seconds a proposal."""
    own = [cell for cell in cells if cell["problem"] == problem and cell["method"] == method]
    parts = []
    for n in sorted({40, min(len(cell["hypervolume"]) for cell in own)}):
        values = [cell["hypervolume"][n - 1] for cell in own]
        parts.append(f"{n} trials: mean {np.mean(values):.4g}, least {min(values):.4g}, greatest {max(values):.4g}")
    seconds = sum(cell["seconds"] for cell in own) / sum(len(cell["hypervolume"]) for cell in own)
    return f"{problem:14} {method:20} {len(own)} seeds; {'; '.join(parts)}; {seconds:.2f} s a proposal"


def main() -> None:
    """Measure, print and store."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"unit": "CPU seconds of one thread", "cells": []}
    if asked.json and asked.json.exists():
        found = json.loads(asked.json.read_text())
    done = {(cell["problem"], cell["method"], cell["seed"]) for cell in found["cells"]}
    for method in asked.methods:
        for seed in range(asked.seeds):
            for name, (problem, trials) in PROBLEMS.items():
                if (name, method, seed) in done:
                    continue
                cell = campaign(problem, METHODS[method], seed, FEWER.get((name, method), trials))
                found["cells"].append({"problem": name, "method": method, "seed": seed, **cell})
                if asked.json:
                    asked.json.write_text(json.dumps(found) + "\n")
        for name in PROBLEMS:
            print(told(found["cells"], name, method), flush=True)


if __name__ == "__main__":
    main()
