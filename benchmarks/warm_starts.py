"""Runs until a design is good enough, with and without the results of an earlier campaign.

    python benchmarks/warm_starts.py [--seeds 20] [--limit 40] [--family NAME] [--json FILE]

Three families, each with two tolerances. Branin, to 0.5 and 0.1 above the least value: the earlier campaign had the
variables moved by 0.5 and 1, results 1.5 times as large and 20 more. Hartmann's function of six variables, to 0.3 and
0.1: the earlier one was 0.7 times as deep and moved by 0.05. Chips (docs/fields.md), to 0.5 and 0.2 K above the best
known design on 96 x 64 cells: the earlier plate was of another material, its conductivity 20% lower, and its exchange
with the air 30% lower; no emulator and no field is used. Each also with an earlier campaign that has nothing to do with
it: a wave across the space. An earlier campaign is ``gp_ei`` of 30 trials. ``auto`` then searches. Each begins with
d + 1 Sobol designs, at least six; with an earlier campaign its best design is the first of them.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from emulated import OtherChips

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.named_algorithm import short_start
from fieldcraft.models.observations import Array, EarlierResults, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.space import SearchSpace

TRIALS = 30
"""Of an earlier campaign."""
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Family:
    """A function of encoded designs that is minimised, values that are good enough, and that of a similar campaign."""

    name: str
    space: SearchSpace
    truth: Function
    targets: tuple[float, float]
    similar: Function


def wave(X: Array) -> Array:
    """A function that knows nothing of any of them."""
    return np.asarray(np.cos(2.5 * X @ np.arange(1, X.shape[1] + 1) / X.shape[1] + 1.0))


def families() -> Iterator[Family]:
    """Every family."""
    branin, hartmann = Branin(), Hartmann(6)

    def physical(space: SearchSpace, X: Array) -> Array:
        return np.stack(list(space.values(X).values()), axis=1).reshape(len(X), -1)

    least = branin.optimum("minimize").value
    yield Family(
        "branin",
        branin.space,
        lambda X: branin.exact(physical(branin.space, X)),
        (least + 0.5, least + 0.1),
        lambda X: 1.5 * branin.exact(physical(branin.space, X) + np.array([0.5, 1.0])) + 20.0,
    )
    optimum = hartmann.optimum("minimize")
    assert optimum is not None
    yield Family(
        "hartmann",
        hartmann.space,
        lambda X: hartmann.exact(physical(hartmann.space, X)),
        (optimum.value + 0.3, optimum.value + 0.1),
        lambda X: 0.7 * hartmann.exact(np.clip(physical(hartmann.space, X) + 0.05, 0, 1)),
    )

    def plate(problem: Problem) -> Function:
        space, cells = problem.space, (96, 64)
        return lambda X: np.concatenate([problem.on_grid(space.values(x[None]), cells)[:, 0] for x in X])

    yield Family("chips", Chips().space, plate(Chips()), (101.272, 100.972), plate(OtherChips(h=0.7, k=0.8)))


def campaign(
    space: SearchSpace,
    truth: Function,
    algorithm: Algorithm,
    seed: int,
    limit: int,
    target: float = -np.inf,
    earlier: tuple[EarlierResults, ...] = (),
) -> tuple[Array, Array]:
    """Designs (n, d) and results (n,) until one is good enough, or to the limit."""
    X, y = np.empty((0, space.dimension)), np.empty(0)
    first = np.array([each.X[np.argmin(each.Y[:, 0])] for each in earlier]) if earlier else None
    while len(y) < limit and not y.min(initial=np.inf) <= target:
        rng = np.random.default_rng([seed, len(y)])
        if len(y) < algorithm.n_initial:
            x = algorithm.begin(space, len(y), 1, np.random.default_rng([seed, 0]), X, first=first)
        else:
            data = Observations(X, y, maximize=False, exact=True, space=space, earlier=earlier)
            posterior = algorithm.fit(data, rng)
            x = algorithm.propose(posterior, data, np.empty((0, space.dimension)), space, 1, rng).X
        X, y = np.vstack([X, x]), np.append(y, truth(x))
    return X, y


def runs(family: Family, seed: int, limit: int, which: str) -> list[int | None]:
    """Runs until a design is within each tolerance; None beyond the limit."""
    n = short_start(family.space.dimension)["n"]
    earlier: tuple[EarlierResults, ...] = ()
    if which != "none":
        before = Algorithm(Sobol(), n, ExactGP(), LogEI(), Multistart())
        X, y = campaign(family.space, family.similar if which == "similar" else wave, before, seed + 100, TRIALS)
        earlier = (EarlierResults(which, X, y[:, None]),)
    algorithm = Algorithm(Sobol(), n, Auto(), LogEI(), Multistart())
    _, y = campaign(family.space, family.truth, algorithm, seed, limit, min(family.targets), earlier)
    best = np.minimum.accumulate(y)
    return [int(np.argmax(best <= target)) + 1 if best[-1] <= target else None for target in family.targets]


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--family", action="append", help="measure this family alone")
    parser.add_argument("--json", type=Path, help="file of the results; what it holds is not run again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else {"rows": []}
    done = {(row["family"], row["earlier"], row["seed"]) for row in known["rows"]}
    for family in families():
        for which in ("none", "similar", "useless"):
            for seed in range(options.seeds):
                if (options.family and family.name not in options.family) or (family.name, which, seed) in done:
                    continue
                found = runs(family, seed, options.limit, which)
                known["rows"].append({"family": family.name, "earlier": which, "seed": seed, "runs": found})
                print(
                    f"{family.name:10} {which:8} seed {seed}: {' and '.join(str(n or '-') for n in found)}", flush=True
                )
                if options.json:
                    options.json.write_text(json.dumps(known) + "\n")


if __name__ == "__main__":
    main()
