"""Cost of a search until a result of the target is good enough, with and without coarser levels, in target runs.

    python benchmarks/levels.py [--seeds 5] [--limit 60] [--family NAME] [--json FILE]

``alone`` is exact_gp x log_ei on the target after gp_ei's start, and ``short`` the same after as few designs
as a campaign with levels gives to its target. ``levels`` is the same process beside multilevel_gp, of which ``auto``
takes the one that predicts better, from the nested start of such a campaign.

Every level of chips and tidal is a run of the simulator itself. Its cost is its share of cells and steps (chips: cells
along x squared; tidal: cubed, since steps of time shrink too), and not of the seconds: most of those of a solve of
chips are the same for all meshes.

chips: 96 cells with levels of 24 and 48, to 0.1 K above the best known (100.77 degC). tidal64 and tidal128: so many
cells with levels of a quarter and a half, to 1% below the largest load. branin has two levels of Perdikaris et al.
(2017), currin one of Xiong, Qian and Wu (2013), and hartmann, of six variables, two of Kandasamy et al. (2016); all to
0.1 of the optimum. Three mislead: wave, chips with a wave across the space as its level; swapped, chips with the places
of its two chips exchanged on 24 cells; and other, branin with Currin's function as its level. hartmann, swapped and
tidal128 (2 to 4 s a run) have no stored results yet, and tidal64 one seed to 30 target runs, within which none arrived.

Tried and dropped: a scaling of its own for each level with the priors of warm_gp (chips took more than 50 target runs
for each of three seeds: differences of 0.1 to 0.5 standard deviations were fitted where 0.01 is right); runs of the
target at any design (chips took 11, 14, 9, and twice more than 30; where the target runs only what the coarsest mesh
has run, 8, 9, 10, 14, and once more than 30); a run of the coarsest mesh before each run of the target without a margin
(the search then never left the coarsest mesh); a short start that is never completed (wave: 16, 28, 55, and twice
more than 60); 3 nats by which multilevel_gp had to predict better (branin: 20, 32, 22, 30 and 19); that a level which
the model leaves out gains nothing by making its own design runnable (chips 16.2 for the first seed and branin 17.2 for
the third, all else equal; but with an emulator of 12 x 8 cells chips took 11.1, more than 30, 17.1, 12.7 and 12.4,
where it takes 11.1, 15.2, 13.2, 12.7 and 12.4).
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.data.level_start import nested_start
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.named_algorithm import short_start
from fieldcraft.models.observations import Array, LevelResults, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.problems.tidal import Tidal
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.physics.simulators.tidal import ChannelPyPde
from fieldcraft.physics.space import Continuous, SearchSpace

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Family:
    """A function of encoded designs that is minimised, coarser ones with their costs, and a good enough value."""

    name: str
    space: SearchSpace
    truth: Function
    lower: Sequence[tuple[float, Function]]
    target: float


def simulated(
    problem: Problem, simulator: Simulator, sign: float = 1.0, turned: Sequence[int] | None = None
) -> Function:
    """The first output of runs, with the variables in another order; each design is run once."""
    space = problem.space

    @cache
    def one(row: tuple[float, ...]) -> float:
        (design,) = space.decode(np.array([row])[:, turned or range(space.dimension)])
        fields = simulator.run(problem, design, np.random.default_rng(0))
        return sign * float(problem.evaluate(design, fields)[problem.outputs[0].name])

    return lambda X: np.array([one(tuple(row)) for row in X.tolist()])


def physical(space: SearchSpace, X: Array) -> Array:
    """Designs (n, d) in their units."""
    return np.stack(list(space.values(X).values()), axis=1).reshape(len(X), -1)


def currin(x: Array) -> Array:
    """Currin's function of [0, 1]^2, negative: its least value is -13.7987 (Currin et al., 1991)."""
    a, b = x.T
    return np.asarray(
        -(1 - np.exp(-1 / (2 * np.maximum(b, 1e-12))))
        * (2300 * a**3 + 1900 * a**2 + 2092 * a + 60)
        / (100 * a**3 + 500 * a**2 + 4 * a + 20)
    )


def currin_below(x: Array) -> Array:
    """Its mean over four places 0.05 away (Xiong, Qian and Wu, 2013)."""
    moves = np.array([(0.05, 0.05), (0.05, -0.05), (-0.05, 0.05), (-0.05, -0.05)])
    return np.asarray(np.mean([currin(np.maximum(x + move, 0)) for move in moves], axis=0))


def hartmann(x: Array, short: int) -> Array:
    """Hartmann's function of six variables with its weights moved by so many steps (Kandasamy et al., 2016)."""
    alpha = np.array([1.0, 1.2, 3.0, 3.2]) + short * np.array([0.01, -0.01, -0.1, 0.1])
    A = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )
    P = 1e-4 * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )  # fmt: skip
    return np.asarray(-np.exp(-(A * (x[:, None] - P) ** 2).sum(axis=2)) @ alpha)


def families() -> Iterator[Family]:
    """Every family."""
    chips, tidal = Chips(), Tidal()
    plate = {cells: simulated(chips, HeatedPlateFindiff(cells)) for cells in (24, 48, 96)}
    yield Family("chips", chips.space, plate[96], [(1 / 16, plate[24]), (1 / 4, plate[48])], 100.87)

    def wave(X: Array) -> Array:
        return np.asarray(104 + 4.8 * np.cos(2.5 * X @ np.arange(1, X.shape[1] + 1) / X.shape[1] + 1.0))

    yield Family("wave", chips.space, plate[96], [(1 / 16, wave)], 100.87)
    swapped = simulated(chips, HeatedPlateFindiff(24), turned=(2, 3, 0, 1))
    yield Family("swapped", chips.space, plate[96], [(1 / 16, swapped)], 100.87)

    branin, unit = Branin(), SearchSpace((Continuous("a", 0.0, 1.0), Continuous("b", 0.0, 1.0)))

    def high(x: Array) -> Array:
        return branin.exact(x)

    def middle(x: Array) -> Array:
        return 10 * np.sqrt(high(x - 2)) + 2 * (x[:, 0] - 0.5) - 3 * (3 * x[:, 1] - 1) - 1

    def low(x: Array) -> Array:
        return middle(1.2 * (x + 2)) - 3 * x[:, 1] + 1

    def of_branin(function: Function) -> Function:
        return lambda X: function(physical(branin.space, X))

    least = branin.optimum("minimize").value + 0.1
    yield Family("branin", branin.space, of_branin(high), [(0.05, of_branin(low)), (0.25, of_branin(middle))], least)
    yield Family("other", branin.space, of_branin(high), [(0.1, lambda X: currin((X + 1) / 2))], least)
    yield Family(
        "currin",
        unit,
        lambda X: currin(physical(unit, X)),
        [(0.1, lambda X: currin_below(physical(unit, X)))],
        -13.7987 + 0.1,
    )
    six = Hartmann(6).space
    levels = [
        (cost, lambda X, short=short: hartmann(physical(six, X), short)) for cost, short in ((0.05, 2), (0.25, 1))
    ]
    yield Family("hartmann", six, lambda X: hartmann(physical(six, X), 0), levels, -3.322368 + 0.1)

    best = tidal.optimum("maximize")
    assert best is not None
    channel = {cells: simulated(tidal, ChannelPyPde(cells), sign=-1.0) for cells in (16, 32, 64, 128)}
    for cells in (64, 128):
        lower = [(1 / 64, channel[cells // 4]), (1 / 8, channel[cells // 2])]
        yield Family(f"tidal{cells}", tidal.space, channel[cells], lower, -0.99 * best.value)


def search(family: Family, algorithm: Algorithm, seed: int, limit: float) -> tuple[float | None, list[int]]:
    """Cost in target runs until a result is good enough, None beyond the limit; runs at each level, the target last."""
    space, costs = family.space, tuple(cost for cost, _ in family.lower)
    functions = [*(function for _, function in family.lower), family.truth]
    start = Sobol().propose(space, 0, algorithm.n_initial, np.random.default_rng([seed, 0]))
    X = [start[:n] for n in nested_start(algorithm.n_initial, costs).values()]
    Y = [function(each) for function, each in zip(functions, X, strict=True)]
    # The start's own runs of the target may end the search.
    good = np.flatnonzero(Y[-1] <= family.target)
    if len(good):
        X[-1], Y[-1] = X[-1][: good[0] + 1], Y[-1][: good[0] + 1]
    prices = [*costs, 1.0]

    def spent() -> float:
        return float(sum(price * len(y) for price, y in zip(prices, Y, strict=True)))

    while Y[-1].min() > family.target and spent() < limit:
        rng = np.random.default_rng([seed, sum(map(len, Y))])
        lower = tuple(LevelResults(k, cost, X[k], Y[k][:, None]) for k, cost in enumerate(costs))
        data = Observations(X[-1], Y[-1], maximize=False, exact=True, space=space, levels=costs, lower=lower)
        found = algorithm.propose(algorithm.fit(data, rng), data, np.empty((0, space.dimension)), space, 1, rng)
        level = found.levels[0] if found.levels else None
        at = len(costs) if level is None else level
        X[at], Y[at] = np.vstack([X[at], found.X]), np.append(Y[at], functions[at](found.X))
    return spent() if Y[-1].min() <= family.target else None, [len(y) for y in Y]


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="target runs after which a search is given up")
    parser.add_argument("--family", action="append", help="measure this family alone")
    parser.add_argument("--json", type=Path, help="file of the results; what it holds is not run again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else {"rows": []}
    done = {(row["family"], row["method"], row["seed"]) for row in known["rows"]}
    for family in families():
        n = short_start(family.space.dimension)["n"]
        judged, few = Auto(candidates=("exact_gp", "multilevel_gp")), nested_start(n, [0.1])[None]
        bare, process = replace(family, lower=[]), ExactGP(restarts=0)
        methods = {
            "alone": (bare, Algorithm(Sobol(), n, process, LogEI(), Multistart())),
            "short": (bare, Algorithm(Sobol(), few, process, LogEI(), Multistart())),
            "levels": (family, Algorithm(Sobol(), n, judged, LogEI(), Multistart())),
        }
        for seed in range(options.seeds):
            for method, (one, algorithm) in methods.items():
                if (options.family and family.name not in options.family) or (family.name, method, seed) in done:
                    continue
                began = process_time()
                cost, runs = search(one, algorithm, seed, options.limit)
                row = {"family": family.name, "method": method, "seed": seed, "cost": cost, "runs": runs}
                known["rows"].append(row)
                said = "-" if cost is None else f"{cost:.2f}"
                print(
                    f"{family.name:9} {method:6} seed {seed}: {said:>6} {runs} {process_time() - began:.1f} s",
                    flush=True,
                )
                if options.json:
                    options.json.write_text(json.dumps(known) + "\n")


if __name__ == "__main__":
    main()
