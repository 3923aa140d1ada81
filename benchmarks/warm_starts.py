"""Runs until a design is good enough, with and without the results of an earlier campaign.

    python benchmarks/warm_starts.py [--seeds 5] [--limit 60] [--family NAME] [--json FILE]

Three families. Branin: within 0.05 of the least value; the earlier campaign had the variables moved by 0.5 and 1, and
results 1.5 times as large and 20 more. Hartmann's function of six variables: within 0.1; the earlier one had pits of
other depths, moved by 0.05. Chips (docs/fields.md): within 0.2 K of the best known design, on 96 x 64 cells; the
earlier plate was of another material, its conductivity 20% lower, and its exchange with the air 30% lower. Each also with an
earlier campaign that has nothing to do with it: a wave across the space. An earlier campaign is ``gp_ei`` of so many
trials as ``EARLIER`` says, of the same seed. ``auto`` then searches, after the same number of designs without a model;
with an earlier campaign the first of them is the earlier best.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from emulated import OtherChips

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, EarlierResults, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.space import SearchSpace

EARLIER = 30
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Family:
    """A function of encoded designs that is minimised, what is good enough, and that of the earlier campaign."""

    name: str
    space: SearchSpace
    truth: Function
    target: float
    similar: Function


def wave(X: Array) -> Array:
    """A function that knows nothing of any of them."""
    return np.asarray(np.cos(2.5 * X @ np.arange(1, X.shape[1] + 1) / X.shape[1] + 1.0))


def families() -> Iterator[Family]:
    """Every family."""
    branin, hartmann = Branin(), Hartmann(6)

    def physical(space: SearchSpace, X: Array) -> Array:
        return np.stack(list(space.values(X).values()), axis=1).reshape(len(X), -1)

    yield Family(
        "branin",
        branin.space,
        lambda X: branin.exact(physical(branin.space, X)),
        branin.optimum("minimize").value + 0.05,
        lambda X: 1.5 * branin.exact(physical(branin.space, X) + np.array([0.5, 1.0])) + 20.0,
    )
    least = hartmann.optimum("minimize")
    assert least is not None
    yield Family(
        "hartmann",
        hartmann.space,
        lambda X: hartmann.exact(physical(hartmann.space, X)),
        least.value + 0.1,
        lambda X: 0.7 * hartmann.exact(np.clip(physical(hartmann.space, X) + 0.05, 0, 1)),
    )

    def plate(problem: Problem) -> Function:
        space, cells = problem.space, (96, 64)
        return lambda X: np.concatenate([problem.on_grid(space.values(x[None]), cells)[:, 0] for x in X])

    yield Family("chips", Chips().space, plate(Chips()), 100.772 + 0.2, plate(OtherChips(h=0.7, k=0.8)))


def campaign(
    family: Family,
    truth: Function,
    algorithm: Algorithm,
    seed: int,
    limit: int,
    target: float,
    earlier: tuple[EarlierResults, ...] = (),
) -> tuple[Array, Array]:
    """Designs (n, d) and results (n,) until one is good enough, or to the limit."""
    space = family.space
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


def runs(family: Family, seed: int, limit: int, which: str) -> int | None:
    """Runs until a design is good enough; None beyond the limit."""
    d = family.space.dimension
    earlier: tuple[EarlierResults, ...] = ()
    if which != "none":
        before = Algorithm(Sobol(), 2 * (d + 1), ExactGP(), LogEI(), Multistart())
        source = family.similar if which == "similar" else wave
        X, y = campaign(family, source, before, seed + 100, EARLIER, -np.inf)
        earlier = (EarlierResults(which, X, y[:, None]),)
    algorithm = Algorithm(Sobol(), START(d, which), Auto(), LogEI(), Multistart())
    _, y = campaign(family, family.truth, algorithm, seed, limit, family.target, earlier)
    return len(y) if y.min() <= family.target else None


def START(d: int, which: str) -> int:
    return 2 * (d + 1) if which == "none" or not SHORT else d + 1


SHORT = False


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--family", action="append", help="measure this family alone")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    global SHORT
    SHORT = options.short
    torch.set_num_threads(1)
    found: list[Mapping[str, object]] = []
    for family in families():
        if options.family and family.name not in options.family:
            continue
        for which in ("none", "similar", "useless"):
            needed = []
            for seed in range(options.seeds):
                needed.append(runs(family, seed, options.limit, which))
                print("   ", family.name, which, seed, needed[-1], flush=True)
            found.append({"family": family.name, "earlier": which, "runs": needed})
            print(f"{family.name:10} {which:8} {', '.join(str(n or '-') for n in needed)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"seeds": options.seeds, "limit": options.limit, "rows": found}) + "\n")


if __name__ == "__main__":
    main()
