"""Predictions and regret with and without what is known of a domain: values on a side, and a mask.

    python benchmarks/conditions.py [--seeds 5] [--trials 15] [--json FILE]

Four problems with their exact solutions: a thermal wave (its first day is known), Burgers' equation (its velocities at
t = 0), Poisson's on a square (one side: value, flux, or both) and on an L (its short sides, and that it is an L). The
error is the root mean square over a grid of 41 x 41 places in the domain, in standard deviations of the objective
there, from ten random results: with no physics (exact_gp), with the equation on the whole box (``equation``), with the
mask too, where there is one (``mask``), and with the conditions too (``conditions``). Linear equations are learnt by
``kernel``, Burgers' by ``trained`` and by ``ntk``. Then the regret of the best of so many trials, five of them Sobol
designs, in the same unit: gp_ei (``nothing``), and pinn_bo with the equation alone and with all that is known. Burgers'
flow is minimised, everything else maximised. A design outside the L is a trial without a result. Nothing is noisy.
There are 64 collocation points, and 16 on a side; 256 and 32 for the errors of networks.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.wiring.campaign import KnownPhysics
from fieldcraft.flows.wiring.physics.equations import physics_at
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations, Physics
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import Surrogate, no_report
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.collocation import collocated
from fieldcraft.physics.domain import Domain
from fieldcraft.physics.problem import Problem, Sense
from fieldcraft.physics.problems.burgers import Burgers
from fieldcraft.physics.problems.l_shape import LShape
from fieldcraft.physics.problems.poisson import Poisson
from fieldcraft.physics.problems.thermal_wave import ThermalWave

RESULTS, START, GRID = 10, 5, 41
COLLOCATION, NETWORKS = 64, 256  # points; the second for the errors of networks


@dataclass(frozen=True)
class Case:
    """A problem and the parts of its physics that are told."""

    name: str
    problem: Problem
    sense: Sense = "maximize"

    @property
    def first(self) -> bool:
        """True if no other case is the same problem with another condition."""
        return "," not in self.name

    @property
    def linear(self) -> bool:
        """True if its equation is linear."""
        assert self.problem.equation is not None
        return self.problem.equation.linear

    def places(self, X: Array) -> Array:
        """Encoded designs (n, d) as points of the domain, (n, d)."""
        return np.array([list(design.values()) for design in self.problem.space.decode(X)])

    def inside(self, X: Array) -> Array:
        """True for each encoded design that belongs to the domain, (n,)."""
        assert self.problem.domain is not None
        return np.asarray(self.problem.domain.contains(self.places(X)))

    def read(self, X: Array) -> Array:
        """The objective at encoded designs, (n,)."""
        found = self.problem.exact(self.places(X))
        assert found is not None
        return found

    def physics(self, told: str, points: int, seed: int, iteration: int) -> Physics | None:
        """What is told: nothing, the equation, with the mask, or with the conditions too."""
        problem = self.problem
        if told == "nothing":
            return None
        assert problem.domain is not None and problem.equation is not None
        domain = Domain(problem.domain.axes) if told == "equation" else problem.domain
        known = KnownPhysics(problem.equation, domain, problem.conditions if told == "conditions" else ())
        at = partial(stream, seed, iteration, Use.COLLOCATE)
        return physics_at(known, problem.space, collocated(known.domain, known.conditions, points, "sobol", at))

    def data(self, X: Array, physics: Physics | None) -> Observations:
        """Trials at encoded designs; those outside the domain have no result."""
        inside, space = self.inside(X), self.problem.space
        given: dict[str, Any] = {"maximize": self.sense == "maximize", "exact": True, "physics": physics}
        return Observations(X[inside], self.read(X[inside]), failed=X[~inside], space=space, **given)


def cases() -> Iterator[Case]:
    """Every problem."""
    yield Case("thermal_wave", ThermalWave())
    yield Case("poisson", Poisson())
    yield Case("poisson, flux", Poisson("flux"))
    yield Case("poisson, robin", Poisson("robin"))
    yield Case("l_shape", LShape())
    yield Case("burgers", Burgers(), "minimize")


def error(case: Case, surrogate: Surrogate, told: str, seed: int) -> float:
    """Root mean square error in the domain from ten random results, in standard deviations of the objective."""
    assert case.problem.sd is not None
    axes = [np.linspace(-1, 1, GRID)] * len(case.problem.space.names)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(GRID ** len(axes), -1)
    grid = grid[case.inside(grid)]
    X = case.problem.space.sample(8 * RESULTS, np.random.default_rng(seed))
    data = case.data(X[case.inside(X)][:RESULTS], case.physics(told, COLLOCATION if case.linear else NETWORKS, seed, 0))
    posterior = surrogate.fit(data, np.random.default_rng([seed, 1]), None, no_report)
    with torch.no_grad():
        mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor(grid))[0].numpy())
    return float(np.sqrt(np.mean((mean - case.read(grid)) ** 2)) / case.problem.sd)


def errors(case: Case) -> Iterator[tuple[str, Surrogate, str]]:
    """Name, surrogate and what is told, for each error that is measured."""
    if case.first:
        yield "exact_gp", ExactGP(), "nothing"
    masked = case.problem.domain is not None and case.problem.domain.mask is not None
    for told in (*(["equation"] if case.first else []), *(["mask"] if masked else []), "conditions"):
        for engine in ("kernel",) if case.linear else ("trained", "ntk"):
            yield f"{engine}, {told}", PhysicsInformed(engine), told


def regrets(case: Case, told: str, seed: int, trials: int) -> list[float]:
    """Distance of the best result to the optimum after each trial, in standard deviations of the objective."""
    space, best = case.problem.space, case.problem.optimum(case.sense)
    assert best is not None and case.problem.sd is not None
    if told == "nothing":
        algorithm = Algorithm(Sobol(), START, ExactGP(), LogEI(), Multistart())
    elif case.linear:
        both = Auto(candidates=("physics_informed/basis", "physics_informed/kernel"))
        algorithm = Algorithm(Sobol(), START, both, LogEI(), Multistart())
    else:
        algorithm = Algorithm(Sobol(), START, PhysicsInformed("trained"), Thompson(), Multistart())
    X = algorithm.begin(space, 0, START, np.random.default_rng([seed, 0]), np.empty((0, 2)))
    for iteration in range(START, trials):
        rng = np.random.default_rng([seed, iteration])
        data = case.data(X, case.physics(told, COLLOCATION, seed, iteration))
        posterior = algorithm.fit(data, rng)
        X = np.vstack([X, algorithm.propose(posterior, data, np.empty((0, 2)), space, 1, rng).X])
    inside = case.inside(X)
    missed = np.where(inside, np.abs(case.read(X) - best.value), np.inf)
    return [float(value) / case.problem.sd for value in np.minimum.accumulate(missed)]


def measured(case: Case, seeds: int, trials: int, told: Callable[[str], None]) -> dict[str, object]:
    """All figures of one problem."""
    found: dict[str, object] = {"case": case.name}
    for name, surrogate, known in errors(case):
        began = time.perf_counter()
        each = [error(case, surrogate, known, seed) for seed in range(seeds)]
        found[f"error of {name}"] = each
        seconds = (time.perf_counter() - began) / seeds
        told(f"{case.name:16} {name:20} error {np.mean(each):.4f} {np.round(each, 4).tolist()} {seconds:.1f} s")
    if not case.first:
        return found
    for known in ("nothing", "equation", "conditions"):
        began = time.perf_counter()
        runs = [regrets(case, known, seed, trials) for seed in range(seeds)]
        found[f"regret with {known}"] = runs
        last = [run[-1] for run in runs]
        seconds = (time.perf_counter() - began) / seeds
        told(f"{case.name:16} {known:20} regret {np.mean(last):.2g} {[f'{v:.2g}' for v in last]} {seconds:.1f} s")
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = [measured(case, options.seeds, options.trials, lambda text: print(text, flush=True)) for case in cases()]
    if options.json:
        options.json.write_text(json.dumps({"seeds": options.seeds, "trials": options.trials, "cases": found}))


if __name__ == "__main__":
    main()
