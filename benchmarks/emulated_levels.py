"""Cost of a search until a result is good enough with an emulator, with coarser levels, and with both, in target runs.

    python benchmarks/emulated_levels.py [--seeds 5] [--limit 30] [--family NAME] [--method NAME] [--json FILE]

``emulator`` is the surrogate of the algorithm ``emulated`` on the target alone, after its start of five designs, the
emulator's best first. ``levels`` is that of benchmarks/levels.py, after 2 (d + 1) Sobol designs. ``levels read`` is the
same with the outputs of levels read from their fields on the target's mesh, which ``both`` has beside the emulator, in
multilevel_gp after the start of ``emulator``, nested. ``auto`` takes ``emulator`` or ``both``, as predicts better. The
costs of levels are those of benchmarks/levels.py, too.

chips, the same with an emulator of 12 x 8 cells, and with an unrelated function as its emulator: to 0.1 K. tidal: 64
cells, to 3% below the largest load; its emulator has 24 x 6 cells, and learns from outputs.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np
import torch
from emulated import Case, OtherChips, Run, UselessChips

from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.snapshots import read_elsewhere
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.data.level_start import nested_start
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, LevelResults, Observations
from fieldcraft.models.proposer import Proposer
from fieldcraft.models.proposers.emulated import Emulated
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import Surrogate
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.emulated_field import EmulatedField
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.multilevel_gp import MultilevelGP
from fieldcraft.physics.problem import Problem, Simulator
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.tidal import Tidal
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.physics.simulators.tidal import ChannelPyPde

START = 5


@dataclass(frozen=True)
class Family:
    """A problem with an emulator, coarser levels with their costs, the cheapest first, and a learner without them."""

    case: Case
    lower: Sequence[tuple[float, Simulator]]
    learner: str


def families() -> Iterator[Family]:
    """Every family."""
    plates = [(1 / 16, HeatedPlateFindiff(24)), (1 / 4, HeatedPlateFindiff(48))]
    problems: Mapping[str, Problem] = {
        "chips": Chips(),
        "chips 12 x 8": OtherChips(cells=(12, 8)),
        "chips useless": UselessChips(),
    }
    for name, problem in problems.items():
        yield Family(Case(name, problem, Chips(), HeatedPlateFindiff(96), 100.87), plates, "emulated_field")
    channel = Tidal()
    most = channel.optimum("maximize")
    assert most is not None
    case = Case("tidal", channel, channel, ChannelPyPde(64, 96), 0.97 * most.value, maximize=True)
    yield Family(case, [(1 / 8, ChannelPyPde(32, 96))], "emulated_gp")


@dataclass(frozen=True)
class Method:
    """A search, and what it is told: the results of levels, their fields, and the emulator."""

    proposer: Proposer
    n: int
    surrogate: Surrogate
    levels: bool = True
    fields: bool = True
    emulator: bool = True


def methods(family: Family) -> Mapping[str, Method]:
    """Every method by its name."""
    n, learner = 2 * (family.case.truth.space.dimension + 1), family.learner
    alone: Surrogate = EmulatedField() if learner == "emulated_field" else EmulatedGP()
    judged = Auto(candidates=("exact_gp", "multilevel_gp"))
    return {
        "emulator": Method(Emulated(), START, alone, levels=False),
        "levels": Method(Sobol(), n, judged, fields=False, emulator=False),
        "levels read": Method(Sobol(), n, judged, emulator=False),
        "both": Method(Emulated(), START, MultilevelGP()),
        "both outputs": Method(Emulated(), START, MultilevelGP(), fields=False),
        "auto": Method(Emulated(), START, Auto(candidates=(learner, "multilevel_gp"))),
    }


def search(family: Family, method: Method, seed: int, limit: float) -> tuple[float | None, list[int]]:
    """Cost in target runs until a result is good enough, None beyond the limit; runs at each level, the target last."""
    case, coarser = family.case, family.lower if method.levels else []
    costs, space = tuple(cost for cost, _ in coarser), case.truth.space
    algorithm = Algorithm(method.proposer, method.n, method.surrogate, LogEI(), Multistart())
    cases = [*(replace(case, simulator=simulator) for _, simulator in coarser), case]
    X: list[Array] = [np.empty((0, space.dimension)) for _ in cases]
    runs: list[list[Run]] = [[] for _ in cases]

    def run(at: int, x: Array) -> None:
        X[at] = np.vstack([X[at], x])
        runs[at].append(cases[at].run(space.decode(x[None])[0]))

    def results(at: int) -> Array:
        return np.array([each.objective for each in runs[at]])

    def spent() -> float:
        return float(sum(price * len(each) for price, each in zip((*costs, 1.0), runs, strict=True)))

    def seen() -> Observations:
        data = case.data(X[-1], runs[-1])
        if not method.emulator:
            data = replace(data, emulators=())
        lower = []
        for k, cost in enumerate(costs):
            own = cases[k].snapshots(runs[k]) if method.fields and data.snapshots is not None else None
            read = None
            if own is not None and data.snapshots is not None:
                read = read_elsewhere(case.emulated, own, data.snapshots, X[k])
            lower.append(LevelResults(k, cost, X[k], results(k)[:, None], read))
        return replace(data, levels=costs, lower=tuple(lower))

    emulators, rng = emulators_of(case.emulated, space), np.random.default_rng([seed, 0])
    start = algorithm.begin(space, 0, algorithm.n_initial, rng, None, emulators, maximize=case.maximize)
    for level, n in nested_start(algorithm.n_initial, costs).items():
        for x in start[:n]:
            if not case.good(results(-1)):
                run(len(costs) if level is None else level, x)
    while not case.good(results(-1)) and spent() < limit:
        rng, data = np.random.default_rng([seed, sum(map(len, runs))]), seen()
        found = algorithm.propose(algorithm.fit(data, rng), data, np.empty((0, space.dimension)), space, 1, rng)
        level = found.levels[0] if found.levels else None
        run(len(costs) if level is None else level, found.X[0])
    return spent() if case.good(results(-1)) else None, [len(each) for each in runs]


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=30.0, help="target runs after which a search is given up")
    parser.add_argument("--family", action="append", help="measure this family alone")
    parser.add_argument("--method", action="append", help="measure this method alone")
    parser.add_argument("--json", type=Path, help="file of the results; what it holds is not run again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else {"rows": []}
    done = {(row["family"], row["method"], row["seed"]) for row in known["rows"]}
    for family in families():
        name = family.case.name
        asked = [each for each in methods(family).items() if options.method is None or each[0] in options.method]
        for seed in range(options.seeds):
            for said, method in asked:
                if (options.family and name not in options.family) or (name, said, seed) in done:
                    continue
                began = process_time()
                cost, runs = search(family, method, seed, options.limit)
                known["rows"].append({"family": name, "method": said, "seed": seed, "cost": cost, "runs": runs})
                shown, seconds = "-" if cost is None else f"{cost:.2f}", process_time() - began
                print(f"{name:14} {said:12} seed {seed}: {shown:>6} {runs} {seconds:.1f} s", flush=True)
                if options.json:
                    options.json.write_text(json.dumps(known) + "\n")


if __name__ == "__main__":
    main()
