"""What `surrogate: auto` makes of right and of wrong equations, at every number of trials up to a limit.

    python benchmarks/evidence.py [--seeds 10] [--trials 15] [--json FILE]

Planted: a plate heated by a known source, k (T_xx + T_yy) = g, with the right conductivity, three times it, a third of
it, and the wrong sign. Heat: the steady plates of problems.md, whose equation is right; and, for what evidence cannot
do, T_xx + 4 T_yy = 0 on the second of them. Six Sobol trials, then log_ei; noise 0.01 sd.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations, Physics
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.physics.collocation import collocate
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import Equation, LinearEquation, Values
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.space import Continuous, SearchSpace

START, COLLOCATION, NOISE = 6, 64, 0.01


@dataclass(frozen=True)
class Case:
    """A field to maximise and what is said of it."""

    name: str
    space: SearchSpace
    domain: Domain
    field: Callable[[Array], Array]
    sd: float
    equation: Equation
    holds: bool


def plate(conductivity: float) -> Case:
    def source(P: Values) -> Values:
        library = np if isinstance(P, np.ndarray) else torch
        return -6.25 * library.sin(2 * P[:, 0]) * library.sin(1.5 * P[:, 1])

    def field(P: Array) -> Array:
        x, y = P.T
        return np.sin(2 * x) * np.sin(1.5 * y) + 0.3 * np.cos(x) * np.cosh(y - 1.5)

    space = SearchSpace((Continuous("x", 0.0, 3.0), Continuous("y", 0.0, 3.0)))
    domain = Domain((Axis("x", 0.0, 3.0), Axis("y", 0.0, 3.0)))
    sd = float(field(np.random.default_rng(0).uniform(0, 3, (10_000, 2))).std())
    equation = LinearEquation(0.0, (0.0, 0.0), ((conductivity, 0.0), (0.0, conductivity)), source)
    return Case(f"plate, k = {conductivity:.3g}", space, domain, field, sd, equation, conductivity == 1.0)


def heat(boundary: int, coefficient: float = 1.0) -> Case:
    problem = Heat(boundary=boundary, margin=0.1)
    equation = LinearEquation(0.0, (0.0, 0.0), ((1.0, 0.0), (0.0, coefficient)))
    name = f"heat {boundary}" + ("" if coefficient == 1.0 else f", T_xx + {coefficient:g} T_yy = 0")
    return Case(name, problem.space, problem.domain, problem.exact, problem.sd, equation, coefficient == 1.0)


def choices(case: Case, seed: int, trials: int) -> Iterator[str]:
    """The surrogate that is chosen at START, START + 1, ... trials."""
    space, rng = case.space, np.random.default_rng([seed, 77])
    low, high = np.array([[v.low, v.high] for v in space.variables]).T
    points = collocate(case.domain, COLLOCATION, "sobol", np.random.default_rng(seed))
    physics = Physics(case.equation, points, (low + high) / 2, (high - low) / 2)
    algorithm = Algorithm(Sobol(), START, Auto(), LogEI(), Multistart())

    def read(X: Array) -> Array:
        values = case.field(physics.decode(X))
        return values + NOISE * case.sd * rng.standard_normal(len(X))

    X = Sobol().propose(space, 0, START, np.random.default_rng(seed))
    y = read(X)
    while True:
        data = Observations(X=X, y=y, maximize=True, noise_sd=NOISE * case.sd, physics=physics)
        posterior = algorithm.fit(data, np.random.default_rng([seed, len(y), 1]))
        yield posterior.remarks["chosen"]
        if len(y) == trials:
            return
        found = algorithm.propose(posterior, data, [], space, 1, np.random.default_rng([seed, len(y), 2]))
        X = np.vstack([X, found.X])
        y = np.append(y, read(found.X))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [*(plate(k) for k in (1.0, 3.0, 1 / 3, -1.0)), *(heat(b) for b in (1, 2, 3)), heat(2, 4.0)]
    kept = []
    print(f"chosen at {options.trials} trials by leave-one-out density, {options.seeds} seeds")
    for case in cases:
        began = time.process_time()
        told = [list(choices(case, seed, options.trials)) for seed in range(options.seeds)]
        physics = [history[-1].startswith("physics") for history in told]
        right = sum(physics) if case.holds else len(physics) - sum(physics)
        verdict = "equation chosen" if case.holds else "equation rejected"
        seconds = time.process_time() - began
        print(f"{case.name:32} {verdict:18} {right:3d} of {len(physics)}   {seconds:6.0f} CPU s", flush=True)
        kept.append({"case": case.name, "holds": case.holds, "right": right, "chosen": told})
    if options.json:
        options.json.write_text(json.dumps({"trials": options.trials, "cases": kept}) + "\n")


if __name__ == "__main__":
    main()
