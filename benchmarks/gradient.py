"""Runs until a design is good enough, with and without the gradients of the objective.

    python benchmarks/gradient.py [--seeds 5] [--limit 25] [--emulated] [--case NAME] [--json FILE]

gp_ei (exact_gp, log EI, multistart after five Sobol designs) learns from the values, or from values and gradients. The
cantilever (docs/fields.md) on 100 cells: within 1% of the best compliance, gradients by ``stated_equation``. Rosenbrock
and Levy in five variables on [-2, 2]^5 and [-10, 10]^5, with their gradients by hand: below 1% of the median of 4,096
Sobol designs. Times are CPU seconds of a whole campaign, simulations included.

With ``--emulated`` the same by emulated_gp, on the cantilever, on chips (96 x 64 cells, within 0.1 K of the best known)
and on chips whose emulator has 12 x 8 cells; and the root mean square error for 300 designs from 12 random results,
with the share of two-sigma intervals that hold. These rows take the place of their like in the file.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from emulated import OtherChips
from scipy.stats import qmc

from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Emulator, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.gradients import gradient_of
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.physics.space import Continuous, SearchSpace

START, RANDOM, UNSEEN = 5, 12, 300
GP_EI = Algorithm(Sobol(), START, ExactGP(), LogEI(), Multistart())
EMULATED = Algorithm(Sobol(), START, EmulatedGP(), LogEI(), Multistart())
Sloped = Callable[[Array], tuple[float, Array]]
"""Function from an encoded design (d,) to the objective and its derivatives by the encoded coordinates (d,)."""


@dataclass(frozen=True, eq=False)
class Case:
    """A space, a function with its gradient, what is good enough, and the function alone where that costs less."""

    name: str
    space: SearchSpace
    run: Sloped
    target: float
    emulators: tuple[Emulator, ...] = ()
    read: Sloped | None = None

    def data(self, X: Array, y: Array, slopes: Array, learns: bool) -> Observations:
        """Results (n,) at X (n, d), with their gradients (n, d) if they are learnt from."""
        return Observations(
            X,
            y,
            False,
            exact=True,
            columns=self.space.columns,
            space=self.space,
            emulators=self.emulators,
            gradients=slopes if learns else None,
        )


def rosenbrock(x: Array) -> tuple[float, Array]:
    """Sum of 100 (x_i+1 - x_i^2)^2 + (1 - x_i)^2, and its gradient."""
    gap, slope = x[1:] - x[:-1] ** 2, np.zeros_like(x)
    slope[:-1] = -400 * x[:-1] * gap - 2 * (1 - x[:-1])
    slope[1:] += 200 * gap
    return float(np.sum(100 * gap**2 + (1 - x[:-1]) ** 2)), slope


def levy(x: Array) -> tuple[float, Array]:
    """Levy's function of w = 1 + (x - 1) / 4, and its gradient."""
    w, pi = 1 + (x - 1) / 4, np.pi
    inner, last = w[:-1], w[-1]
    wave, swing = np.sin(pi * inner + 1), np.sin(2 * pi * last)
    value = np.sin(pi * w[0]) ** 2 + np.sum((inner - 1) ** 2 * (1 + 10 * wave**2)) + (last - 1) ** 2 * (1 + swing**2)
    slope = np.zeros_like(x)
    slope[:-1] = 2 * (inner - 1) * (1 + 10 * wave**2) + (inner - 1) ** 2 * 20 * pi * wave * np.cos(pi * inner + 1)
    slope[-1] = 2 * (last - 1) * (1 + swing**2) + (last - 1) ** 2 * 4 * pi * swing * np.cos(2 * pi * last)
    slope[0] += 2 * pi * np.sin(pi * w[0]) * np.cos(pi * w[0])
    return float(value), slope / 4


def analytic(name: str, function: Sloped, half: float) -> Case:
    """A function of five variables on [-half, half]^5."""
    space = SearchSpace(tuple(Continuous(f"x{i}", -half, half) for i in range(5)))
    points = 2 * qmc.Sobol(5, seed=0).random(4096) - 1
    target = 0.01 * float(np.median([function(half * x)[0] for x in points]))

    def run(x: Array) -> tuple[float, Array]:
        value, slope = function(half * x)
        return value, half * slope

    return Case(name, space, run, target)


def simulated(problem: Problem, simulator: StatedEquation, x: Array) -> tuple[float, Array]:
    """The objective at an encoded design and its gradient, which is NaN where the simulator gives none."""
    half = np.array([v.scale[1] for v in problem.space.variables if isinstance(v, Continuous)])
    (design,) = problem.space.decode(x[None])
    fields = simulator.run(problem, design, np.random.default_rng(0))
    slopes, objective = gradient_of(problem, fields), problem.evaluate(design, fields)[problem.outputs[0].name]
    return objective, half * (np.nan if slopes is None else np.array(list(slopes.values())))


def cantilever() -> Case:
    """The cantilever on 100 cells, within 1% of the best compliance there."""
    problem = CantileverProfile()
    space, run = problem.space, partial(simulated, problem, StatedEquation(100, gradient=True))
    best = problem.optimum("minimize")
    assert best is not None
    return Case("cantilever", space, run, 1.01 * run(space.encode([best.design])[0])[0])


def emulated() -> Iterator[Case]:
    """The cases with an emulator."""
    bar = CantileverProfile()
    yield replace(
        cantilever(), emulators=emulators_of(bar, bar.space), read=partial(simulated, bar, StatedEquation(100))
    )
    plate = Chips()
    run, read = (partial(simulated, plate, StatedEquation(96, gradient=each)) for each in (True, False))
    for name, problem in {"chips": plate, "chips, 12 x 8 cells": OtherChips(cells=(12, 8))}.items():
        yield Case(name, plate.space, run, 100.772 + 0.1, emulators_of(problem, plate.space), read)


def foreseen(case: Case, learns: bool, seed: int) -> Mapping[str, float]:
    """Error of emulated_gp from random results, the share of intervals that hold, and the CPU seconds of the fit."""
    rng = np.random.default_rng(seed)
    X, Z = case.space.sample(RANDOM, rng), case.space.sample(UNSEEN, rng)
    values, slopes = zip(*(case.run(x) for x in X), strict=True)
    known, truth = case.data(X, np.array(values), np.array(slopes), learns), unseen(case, Z.tobytes())
    began = time.process_time()
    posterior = EmulatedGP().fit(known, rng, None, no_report)
    seconds = time.process_time() - began
    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.tensor(Z))
    error = np.abs(posterior.scaling.to_physical(mean.numpy()) - truth)
    held = np.mean(error < 2 * posterior.scaling.sd * np.sqrt(variance.numpy()))
    return {"error": float(np.sqrt(np.mean(error**2))), "held": float(held), "seconds": seconds}


@lru_cache
def unseen(case: Case, points: bytes) -> Array:
    """Results at encoded designs, kept for the second method."""
    assert case.read is not None  # every case of ``emulated`` has it
    return np.array([case.read(x)[0] for x in np.frombuffer(points).reshape(-1, case.space.dimension)])


def until_good(
    case: Case, learns: bool, seed: int, limit: int, algorithm: Algorithm
) -> Mapping[str, float | int | None]:
    """One campaign: its runs to the target, None if it missed it, its best result, and its CPU seconds."""
    began, space = time.process_time(), case.space
    X, y, slopes = np.empty((0, space.dimension)), np.empty(0), np.empty((0, space.dimension))
    while len(y) < limit and not np.min(y, initial=np.inf) <= case.target:
        rng = np.random.default_rng([seed, len(y)])
        if len(y) < START:
            x = algorithm.begin(space, len(y), 1, np.random.default_rng([seed, 0]), X, (), maximize=False)
        else:
            data = case.data(X, y, slopes, learns)
            posterior = algorithm.fit(data, rng)
            x = algorithm.propose(posterior, data, np.empty((0, space.dimension)), space, 1, rng).X
        value, slope = case.run(x[0])
        X, y, slopes = np.vstack([X, x]), np.append(y, value), np.vstack([slopes, slope])
    best = float(y.min())
    return {"runs": len(y) if best <= case.target else None, "best": best, "seconds": time.process_time() - began}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=25)
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--case", action="append", help="measure this case alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    plain = [cantilever(), analytic("rosenbrock", rosenbrock, 2.0), analytic("levy", levy, 10.0)]
    before, algorithm = ("emulated ", EMULATED) if options.emulated else ("", GP_EI)
    stored = json.loads(options.json.read_text())["cases"] if options.json and options.json.exists() else []
    cases = emulated() if options.emulated else plain
    for case in (each for each in cases if options.case is None or each.name in options.case):
        for method, learns in ((before + "values", False), (before + "gradients", True)):
            seeds = range(options.seeds)
            row: dict[str, object] = {"case": case.name, "target": case.target, "method": method}
            if options.emulated:
                row["foreseen"] = told = [foreseen(case, learns, seed) for seed in seeds]
                print(case.name, method, *(f"{each['error']:.3g} ({each['held']:.2f})" for each in told), flush=True)
            campaigns = [until_good(case, learns, seed, options.limit, algorithm) for seed in seeds]
            said = ", ".join(f"{run['runs'] or '-'} ({run['best']:.4g}, {run['seconds']:.0f} s)" for run in campaigns)
            print(f"{case.name:12} {method:10} target {case.target:.4g}: {said}", flush=True)
            stored = [each for each in stored if (each["case"], each["method"]) != (case.name, method)]
            stored.append({**row, "campaigns": campaigns})
            if options.json:
                options.json.write_text(json.dumps({"seeds": options.seeds, "limit": options.limit, "cases": stored}))


if __name__ == "__main__":
    main()
