"""Runs of reduced_basis on the cantilever until a design is good enough, and until that is proven.

    python benchmarks/reduced.py [--seeds 5] [--limit 40] [--json FILE]

The cantilever of docs/fields.md on 400 cells: runs until the best result is within 1% of the best known compliance, and
until the proven bound of the regret is at most 1% of the best result, the start of five Sobol designs included, or, as
the named algorithm has it, the best design of the emulator of ten cells and four Sobol designs. ``log_ei`` has this
acquisition instead of ucb, ``auto`` that and the surrogate auto. Then, for 300 designs that were not run, the error of
the predictions from 5, 8, 12 and 20 random results and from the 16 of a search, the share of two-sigma intervals that
hold and the largest share by which a lower bound exceeds the result; and the CPU seconds of a bound of the regret.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from emulated import START, UNSEEN, Case, Run, cases

from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.certified.regret import regret_bound
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.proposers.emulated import Emulated
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import BoundedBelow, Posterior, no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.reduced_basis import ReducedBasis

METHODS: Mapping[str, Algorithm] = {
    "reduced_basis": Algorithm(Emulated(), START, ReducedBasis(), UCB(), Multistart()),
    "sobol start": Algorithm(Sobol(), START, ReducedBasis(), UCB(), Multistart()),
    "log_ei": Algorithm(Sobol(), START, ReducedBasis(), LogEI(), Multistart()),
    "auto": Algorithm(Sobol(), START, Auto(), LogEI(), Multistart()),
}
SHARE = 0.01
LATE = 16


def search(case: Case, algorithm: Algorithm, seed: int) -> Iterator[tuple[np.ndarray, list[Run], Posterior | None]]:
    """Designs and runs so far of a search without end, from none on, and the posterior that proposes the next."""
    space, emulators, runs = case.truth.space, emulators_of(case.emulated, case.truth.space), []
    X, pending = np.empty((0, space.dimension)), np.empty((0, space.dimension))
    while True:
        rng = np.random.default_rng([seed, len(X)])
        data = case.data(X, runs) if len(X) >= START else None
        posterior = None if data is None else algorithm.fit(data, rng)
        yield X, runs, posterior
        if data is None or posterior is None:
            x = algorithm.begin(space, len(X), 1, np.random.default_rng([seed, 0]), X, emulators, maximize=False)
        else:
            x = algorithm.propose(posterior, data, pending, space, 1, rng).X
        runs.append(case.run(space.decode(x)[0]))
        X = np.vstack([X, x])


def until_proven(case: Case, algorithm: Algorithm, seed: int, limit: int) -> dict[str, object]:
    """Runs until good enough and until proven so (None beyond the limit), the bounds, and CPU seconds of a bound."""
    good, proven, bounds, seconds = None, None, [], []
    for X, runs, posterior in search(case, algorithm, seed):
        y = np.array([run.objective for run in runs])
        good = len(y) if good is None and len(y) and case.good(y) else good
        if len(y) == limit or (good is not None and proven is not None):
            return {"runs": good, "proven": proven, "best": float(y.min()), "bounds": bounds, "seconds": max(seconds)}
        if posterior is not None:
            began = time.process_time()
            minorants = posterior.minorants if isinstance(posterior, BoundedBelow) else None
            bound = None if minorants is None else regret_bound(minorants, case.truth.space)
            seconds.append(time.process_time() - began)
            bounds.append(None if bound is None else [len(X), bound.lower, bound.regret, bound.nodes])
            if proven is None and bound is not None and bound.regret <= SHARE * y.min():
                proven = len(y)
    raise AssertionError("a search has no end of its own")


def foreseen(case: Case, n: int, seed: int) -> dict[str, float]:
    """What n random results foretell (see ``judged``)."""
    rng = np.random.default_rng(seed)
    X = case.truth.space.sample(n, rng)
    return judged(case, X, [case.run(design) for design in case.truth.space.decode(X)], rng)


def late(case: Case, algorithm: Algorithm, n: int, seed: int) -> dict[str, float]:
    """What the first n results of a search foretell (see ``judged``)."""
    X, runs = next((X, runs) for X, runs, _ in search(case, algorithm, seed) if len(X) == n)
    return judged(case, X, runs, np.random.default_rng(seed))


def judged(case: Case, X: np.ndarray, runs: Sequence[Run], rng: np.random.Generator) -> dict[str, float]:
    """Root mean square error in J, share within two standard deviations, largest excess of a lower bound."""
    Z = case.truth.space.sample(UNSEEN, rng)
    truth = np.array([case.run(design).objective for design in case.truth.space.decode(Z)])
    posterior = ReducedBasis().fit(case.data(X, runs), rng, None, no_report)
    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.tensor(Z))
    error = np.abs(posterior.scaling.to_physical(mean.numpy()) - truth)
    sd = posterior.scaling.sd * np.sqrt(variance.numpy())
    assert isinstance(posterior, BoundedBelow) and posterior.minorants is not None
    excess = np.max(posterior.minorants.values(Z) / truth - 1)
    return {
        "error": float(np.sqrt(np.mean(error**2))),
        "median": float(np.median(error)),
        "held": float(np.mean(error < 2 * sd)),
        "excess": float(excess),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    (case,) = (case for case in cases() if case.name == "cantilever")
    found: dict[str, object] = {"seeds": options.seeds, "limit": options.limit}
    for name, algorithm in METHODS.items():
        rows = [until_proven(case, algorithm, seed, options.limit) for seed in range(options.seeds)]
        found[name] = rows
        told = [", ".join(str(row[key] or "-") for row in rows) for key in ("runs", "proven")]
        print(
            f"{name:14} within 1% {told[0]:18} proven {told[1]:18} {max(row['seconds'] for row in rows):.2f} s a bound"
        )
    foretold = {f"of {n}": [foreseen(case, n, seed) for seed in range(options.seeds)] for n in (5, 8, 12, 20)}
    foretold["late"] = [late(case, METHODS["sobol start"], LATE, seed) for seed in range(options.seeds)]
    found |= foretold
    for name, shares in foretold.items():
        held, error, excess = ([share[key] for share in shares] for key in ("held", "median", "excess"))
        print(
            f"{name} results: median error {np.median(error):.3g} J, held {np.round(held, 2)}, excess {max(excess):.1e}"
        )
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
