"""Results of unequal noise: what it is worth to state each one's, and to repeat designs where that pays.

Every second result is of a rough instrument. The regret is that of the design that the model recommends after all
trials, the least posterior mean among those tried, without noise, as a share of the function's standard deviation.
Run with ``python benchmarks/repeats.py [--seeds 5] [--only PROBLEM] [--json FILE]``; about a CPU minute a seed.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.hartmann import Hartmann
from fieldcraft.physics.space import Continuous, SearchSpace

Array = NDArray[np.float64]
START, TRIALS = 8, 22
SDS = (0.02, 0.8)
"""Noise of the two instruments, as shares of the function's standard deviation."""
ARMS = {"not stated": (False, False), "stated": (True, False), "stated, repeats": (True, True)}


def _bumps(X: Array) -> Array:
    return np.asarray(np.sin(5 * X[:, 0]) + 0.8 * np.cos(4 * X[:, 1] + 1) + 0.5 * (X**2).sum(1))


def _problems() -> dict[str, tuple[SearchSpace, Callable[[Array], Array]]]:
    """Spaces, and functions of encoded designs to be minimised."""
    made: dict[str, tuple[SearchSpace, Callable[[Array], Array]]] = {
        "bumps": (SearchSpace((Continuous("a", -1, 1), Continuous("b", -1, 1))), _bumps)
    }
    for name, problem in (("branin", Branin()), ("hartmann3", Hartmann(dimension=3))):
        space = problem.space

        def read(X: Array, problem: Branin | Hartmann = problem, space: SearchSpace = space) -> Array:
            designs = space.decode(X)
            found = problem.exact(np.array([list(design.values()) for design in designs], dtype=np.float64))
            return np.asarray(found)

        made[name] = space, read
    return made


def regret(name: str, arm: str, seed: int) -> tuple[float, int]:
    """Regret of the recommended design, and the number of repeated trials."""
    space, f = _problems()[name]
    stated, repeats = ARMS[arm]
    rng = np.random.default_rng(seed)
    many = f(space.sample(20_000, np.random.default_rng(0)))
    unit, least = float(many.std()), float(many.min())
    words = ExactGP(restarts=1), LogEI(), Multistart()
    algorithm = Algorithm(Sobol(), START, *words, repeats=repeats)
    X = algorithm.begin(space, 0, START, rng)
    noises = np.random.default_rng(1000 + seed).standard_normal(TRIALS)
    sds = unit * np.where(np.arange(TRIALS) % 2, SDS[1], SDS[0])
    while True:
        n = len(X)
        y = f(X) + sds[:n] * noises[:n]
        data = Observations(X, y, maximize=False, sds=sds[:n, None] if stated else np.empty((0, 0)))
        posterior = algorithm.fit(data, rng)
        if n == TRIALS:
            break
        found = algorithm.propose(posterior, data, np.empty((0, space.dimension)), space, 1, rng)
        X = np.vstack([X, found.X])
    with torch.no_grad():
        best = int(posterior.mean_var(torch.tensor(X))[0].argmin())
    return float(f(X[best : best + 1])[0] - least) / unit, len(X) - len(np.unique(X, axis=0))


def error(name: str, seed: int, *, stated: bool) -> float:
    """Root mean square error of the model's mean after 30 Sobol designs, as a share of the standard deviation."""
    space, f = _problems()[name]
    rng = np.random.default_rng(seed)
    points = space.sample(2000, np.random.default_rng(0))
    exact = f(points)
    X = Sobol().propose(space, 0, 30, rng)
    sds = exact.std() * np.where(np.arange(30) % 2, SDS[1], SDS[0])
    y = f(X) + sds * np.random.default_rng(1000 + seed).standard_normal(30)
    data = Observations(X, y, maximize=False, sds=sds[:, None] if stated else np.empty((0, 0)))
    posterior = ExactGP(restarts=1).fit(data, rng, None, no_report)
    with torch.no_grad():
        mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor(points))[0].numpy())
    return float(np.sqrt(np.mean((mean - exact) ** 2)) / exact.std())


def main() -> None:
    """Print the regrets, and write them where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=list(_problems()), help="one of the problems")
    parser.add_argument("--fits", action="store_true", help="the errors of the models alone, which take seconds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.fits:
        for name in _problems():
            for stated in (False, True):
                errors = [error(name, seed, stated=stated) for seed in range(options.seeds)]
                print(f"{name:10} {'stated' if stated else 'not stated':16} {' '.join(f'{e:.3f}' for e in errors)}")
        return
    told = {}
    for name in [options.only] if options.only else _problems():
        for arm in ARMS:
            found = [regret(name, arm, seed) for seed in range(options.seeds)]
            regrets = np.array([each[0] for each in found])
            told[f"{name}, {arm}"] = {"regrets": regrets.tolist(), "repeats": [each[1] for each in found]}
            repeats = np.mean([each[1] for each in found])
            told_of = f"{regrets.mean():8.4f} median {np.median(regrets):8.4f} repeats {repeats:.1f}"
            print(f"{name:10} {arm:16} {told_of}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
