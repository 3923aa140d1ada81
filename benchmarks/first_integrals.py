"""Symmetries, transport and waves: predictions and searches by polynomials that solve them, and by first integrals.

    python benchmarks/first_integrals.py [--draws 8] [--seeds 5] [--json FILE]

Thirteen functions over [-5, 5]^2 obey equations of seven kinds that say nothing else of them: nothing changes along
circles, along ellipses about another place, along lines, along hyperbolas, or along rays (of x / y, from 0.5 to 10.5),
or all decays along lines, or waves run in both directions. The error is the root mean square over 500 designs, in their
standard deviations, from 12 and 24 random results with noise of a hundredth of it, the geometric mean over the draws:
by polynomials alone, as engine ``basis`` had them once, by first integrals alone, by ``basis``, which takes the form of
larger evidence, and by exact_gp, which knows no equation.

Then the regret of the best of 18 trials with such noise, the first six of them Sobol designs, by log_ei and multistart:
on the rings and on the functions with two valleys.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations, Physics
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.solutions.first_integrals import FirstIntegrals
from fieldcraft.models.solutions.polynomial import NullSpace, Solutions
from fieldcraft.models.solutions.posterior import SolutionPosterior, fit_solutions, forms_of
from fieldcraft.models.surrogate import Report, no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, Values
from fieldcraft.physics.space import Continuous, SearchSpace

HALF, NOISE, UNSEEN, RESULTS = 5.0, 0.01, 500, (12, 24)
START, TRIALS = 6, 18
SPACE = SearchSpace((Continuous("x", -HALF, HALF), Continuous("y", -HALF, HALF)))
PLACES = np.random.default_rng(0).uniform(-HALF, HALF, (64, 2))
Coefficient = float | Callable[[Values], Values]


def along(x: Coefficient, y: Coefficient) -> LinearEquation:
    """x f_x + y f_y = 0."""
    return LinearEquation(0.0, (x, y), ((0.0, 0.0), (0.0, 0.0)))


CIRCLES = along(lambda p: -p[:, 1], lambda p: p[:, 0])
ELLIPSES = along(lambda p: 1.5 - p[:, 1], lambda p: 2 * (p[:, 0] + 0.4))
LINES = along(1.0, 0.5)
DECAY = LinearEquation(0.3, (1.0, 0.5), ((0.0, 0.0), (0.0, 0.0)))
HYPERBOLAS = along(lambda p: -p[:, 0], lambda p: p[:, 1])
RATIOS = along(lambda p: p[:, 0] + 5.5, lambda p: p[:, 1] + 5.5)
WAVES = LinearEquation(0.0, (0.0, 0.0), ((1.0, 0.0), (0.0, -1.0)))


def radius(p: Array) -> Array:
    """Distance from the centre."""
    return np.hypot(p[:, 0], p[:, 1])


def squares(p: Array) -> Array:
    """What is constant along the ellipses."""
    return 2 * (p[:, 0] + 0.4) ** 2 + (p[:, 1] - 1.5) ** 2


def across(p: Array) -> Array:
    """What is constant along the lines."""
    return p[:, 1] - 0.5 * p[:, 0]


def product(p: Array) -> Array:
    """What is constant along the hyperbolas."""
    return p[:, 0] * p[:, 1]


FUNCTIONS: dict[str, tuple[LinearEquation, Callable[[Array], Array]]] = {
    "rings, deepest in their centre": (CIRCLES, lambda p: -(1 + np.cos(12 * radius(p))) / (radius(p) ** 2 / 2 + 2)),
    "rings, deepest at 3": (CIRCLES, lambda p: -(1 + np.cos(6 * (radius(p) - 3))) / (1 + (radius(p) - 3) ** 2)),
    "a bell": (CIRCLES, lambda p: -np.exp(-(radius(p) ** 2) / 4)),
    "a bowl of degree 4": (CIRCLES, lambda p: radius(p) ** 2 - 0.02 * radius(p) ** 4),
    "a cone": (CIRCLES, lambda p: -np.exp(-0.2 * radius(p))),
    "waves on ellipses": (ELLIPSES, lambda p: np.sin(0.1 * squares(p))),
    "waves on lines": (LINES, lambda p: np.sin(2 * across(p))),
    "two pulses on lines": (
        LINES,
        lambda p: -np.exp(-4 * (across(p) - 3) ** 2) - 0.5 * np.exp(-((across(p) + 2) ** 2)),
    ),
    "a pulse that decays on lines": (DECAY, lambda p: -np.exp(-(across(p) ** 2) - 0.3 * p[:, 0])),
    "a step on hyperbolas": (HYPERBOLAS, lambda p: np.tanh(product(p) / 3)),
    "two valleys on hyperbolas": (
        HYPERBOLAS,
        lambda p: -np.exp(-((product(p) - 7) ** 2) / 20) - 0.6 * np.exp(-((product(p) + 7) ** 2) / 20),
    ),
    "a peak of a ratio": (RATIOS, lambda p: -np.exp(-2 * np.log((p[:, 0] + 5.5) / (p[:, 1] + 5.5)) ** 2)),
    "two pulses that pass each other": (
        WAVES,
        lambda p: 0.7 * np.exp(-((p[:, 0] + p[:, 1] - 4) ** 2) / 4) - np.exp(-((p[:, 0] - p[:, 1]) ** 2) / 4),
    ),
}
SEARCHED = ("rings, deepest in their centre", "rings, deepest at 3", "two pulses on lines", "two valleys on hyperbolas")


@dataclass(frozen=True)
class Alone:
    """Engine ``basis`` with one form of the solutions alone."""

    form: type[Solutions]

    uses_physics = True

    def fit(self, data: Observations, rng: np.random.Generator, start: None, report: Report) -> SolutionPosterior:
        """Condition the prior."""
        assert data.physics is not None
        forms = tuple(each for each in forms_of(data.physics, 30) if isinstance(each, self.form))
        return fit_solutions(data, data.physics, 30, forms, torch.zeros(32, dtype=torch.uint8))


LEARNERS = {
    "polynomials": Alone(NullSpace),
    "first integrals": Alone(FirstIntegrals),
    "basis": PhysicsInformed("basis"),
    "exact_gp": ExactGP(),
}


def observed(name: str, X: Array, rng: np.random.Generator, told: bool) -> Observations:
    """Results at encoded designs (n, 2) with noise."""
    equation, function = FUNCTIONS[name]
    sd = NOISE * function(np.random.default_rng(0).uniform(-HALF, HALF, (2000, 2))).std()
    physics = Physics(equation, PLACES, np.zeros(2), np.full(2, HALF)) if told else None
    y = function(HALF * X) + sd * rng.normal(size=len(X))
    return Observations(X, y, maximize=False, noise_sd=sd, physics=physics, space=SPACE)


def error(name: str, learner: str, results: int, draw: int) -> float:
    """Root mean square error at designs that were not run, in their standard deviations."""
    rng = np.random.default_rng(draw)
    X, Z = rng.uniform(-1, 1, (results, 2)), rng.uniform(-1, 1, (UNSEEN, 2))
    data, truth = observed(name, X, rng, learner != "exact_gp"), FUNCTIONS[name][1](HALF * Z)
    posterior = LEARNERS[learner].fit(data, np.random.default_rng(1), None, no_report)
    with torch.no_grad():
        mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor(Z))[0].numpy())
    return float(np.sqrt(np.mean((mean - truth) ** 2)) / truth.std())


def regret(name: str, learner: str, seed: int) -> float:
    """Distance of the best of the visited designs to the least value on a fine grid, without noise."""
    algorithm = Algorithm(Sobol(), START, LEARNERS[learner], LogEI(), Multistart())
    nothing, function = np.empty((0, 2)), FUNCTIONS[name][1]
    X = algorithm.begin(SPACE, 0, START, np.random.default_rng([seed, 0]), nothing)
    for iteration in range(START, TRIALS):
        rng = np.random.default_rng([seed, iteration])
        data = observed(name, X, np.random.default_rng([seed, 1, 1]), learner != "exact_gp")
        posterior = algorithm.fit(data, rng)
        X = np.vstack([X, algorithm.propose(posterior, data, nothing, SPACE, 1, rng).X])
    axis = np.linspace(-HALF, HALF, 1001)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return float(function(HALF * X).min() - function(grid).min())


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    errors: dict[str, dict[str, list[float]]] = {}
    for name in FUNCTIONS:
        errors[name] = {}
        for results in RESULTS:
            for learner in LEARNERS:
                each = [error(name, learner, results, draw) for draw in range(options.draws)]
                errors[name][f"{learner}, {results}"] = each
                print(f"{name:30} {learner:15} {results:3} results: {np.exp(np.mean(np.log(each))):.3g}", flush=True)
    regrets: dict[str, dict[str, list[float]]] = {}
    for name in SEARCHED:
        regrets[name] = {}
        for learner in ("polynomials", "basis", "exact_gp"):
            each = regrets[name][learner] = [regret(name, learner, seed) for seed in range(options.seeds)]
            print(f"{name:30} {learner:15} regret {np.mean(each):.3g} {[f'{value:.3g}' for value in each]}", flush=True)
    if options.json:
        figures = {"draws": options.draws, "seeds": options.seeds, "errors": errors, "regrets": regrets}
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
