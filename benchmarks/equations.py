"""Predictions and searches in many variables with an equation, and without it.

    python benchmarks/equations.py [--draws 5] [--seeds 5] [--json FILE]

Four solutions in 5 and 10 variables obey equations that say nothing else of them: plane waves in three directions
(Helmholtz), a quadratic without curvature on the whole (Laplace), waves that decay along one direction (transport) and
a sum of bells (Poisson). The error is the root mean square over 400 designs, in their standard deviations, from two
and four results a variable with noise of a twentieth of it, with the equation at 256 places: by ``kernel`` of
physics_informed, and by exact_gp, which knows no equation.

Seven more have a right-hand side, which for all but the last is a sum of functions of one variable (``SUMS``): bells;
these and a saddle; a drift with waves across it; one source beside a ridge; waves in each variable and one across
(Helmholtz); the square of the sum, which is far from such a sum; products of two variables. The same is measured there,
and by ``kernel`` without a sum that solves the equation (``plain``).

Four functions state a linear equation of first order that was computed from them (``oracle``), imposed at 64 places.
The error is that from 50 random results with noise of a tenth, in 4, 10 and 20 variables. Then the regret of the best
of 60 trials with such noise, the first 22 of them Sobol designs, in ten variables: by either with log_ei and
multistart.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.wiring.campaign import KnownPhysics
from fieldcraft.flows.wiring.physics.equations import physics_at
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations, Physics
from fieldcraft.models.physics_informed.joint_engines import Kernel
from fieldcraft.models.physics_informed.joint_posterior import JointPosterior
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import Report, no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.collocation import collocated
from fieldcraft.physics.operators import LinearEquation, Values, helmholtz, laplace, poisson
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.problems.cosine_mixture import CosineMixture
from fieldcraft.physics.problems.michalewicz import Michalewicz
from fieldcraft.physics.problems.rastrigin import Rastrigin
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang

FUNCTIONS: dict[str, Callable[..., Problem]] = {
    "styblinski_tang": StyblinskiTang,
    "rastrigin": Rastrigin,
    "michalewicz": Michalewicz,
    "cosine_mixture": CosineMixture,
}


@dataclass(frozen=True)
class Plain:
    """Engine ``kernel`` of physics_informed, without a sum that solves the equation."""

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> JointPosterior:
        """The posterior (see ``Surrogate.fit``)."""
        assert data.physics is not None
        return Kernel().models(data, data.physics)[0].fitted(data.noise_variance)


SURROGATES: dict[str, Any] = {"kernel": PhysicsInformed("kernel"), "exact_gp": ExactGP(), "plain": Plain()}
OF_SUMS = ("plain", "kernel", "exact_gp")
DIMENSIONS, SEARCHED = (4, 10, 20), 10
PLACES, NOISE, RESULTS, UNSEEN, START, TRIALS = 64, 0.1, 50, 400, 22, 60
SOLVED_IN, CLOSE, LITTLE = (5, 10), 256, 0.05
Solution = tuple[Callable[[Array], Array], LinearEquation]


def waves(d: int, rng: np.random.Generator) -> Solution:
    """Plane waves of the wavenumber 2 in three directions: laplacian f + 4 f = 0."""
    directions = rng.normal(size=(d, 3))
    directions /= np.linalg.norm(directions, axis=0)
    phases, sizes = rng.uniform(0, 2 * np.pi, 3), rng.normal(size=3)
    return lambda X: np.sin(2.0 * X @ directions + phases) @ sizes, helmholtz(d, 2.0)


def saddle(d: int, rng: np.random.Generator) -> Solution:
    """A quadratic whose curvatures sum to zero, and a slope."""
    M, slope = rng.normal(size=(d, d)), rng.normal(size=d)
    M = (M + M.T) / 2 - np.eye(d) * np.trace(M) / d
    return lambda X: ((X @ M) * X).sum(axis=1) / np.sqrt(d) + X @ slope, laplace(d)


def decay(d: int, rng: np.random.Generator) -> Solution:
    """b . grad f + f = 0, with waves across b."""
    b, v = rng.normal(size=d), rng.normal(size=d)
    across = v - b * (b @ v) / (b @ b)
    equation = LinearEquation(1.0, tuple(b), ((0.0,) * d,) * d)
    return lambda X: np.exp(-X @ b / (b @ b)) * np.cos(X @ across), equation


def bells(d: int, rng: np.random.Generator) -> Solution:
    """The sum of a bell in each variable, and the source that it comes from."""
    middle = rng.uniform(-0.5, 0.5, d)

    def source(points: Values) -> Values:
        squares = (points - middle) ** 2
        return (np.exp(-2 * squares) * (16 * squares - 4)).sum(axis=1)

    return lambda X: np.exp(-2 * (X - middle) ** 2).sum(axis=1), poisson(d, source)


def bells_and_saddle(d: int, rng: np.random.Generator) -> Solution:
    """Both, by the equation of the first."""
    (first, equation), (second, _) = bells(d, rng), saddle(d, rng)
    return lambda X: first(X) + second(X) / 2, equation


def drift(d: int, rng: np.random.Generator) -> Solution:
    """b . grad f = g, with a sine in each variable, and waves across b."""
    b, middle, across = rng.normal(size=d), rng.uniform(-0.5, 0.5, d), rng.normal(size=d)
    across -= b * (b @ across) / (b @ b)
    across *= 2 / np.linalg.norm(across)

    def source(points: Values) -> Values:
        return (3 * np.cos(3 * (points - middle)) * b).sum(axis=1)

    return lambda X: np.sin(3 * (X - middle)).sum(axis=1) + 2 * np.cos(X @ across), transport(tuple(b), source)


def one_source(d: int, rng: np.random.Generator) -> Solution:
    """sum_i f_i = g(x_1), and a ridge along the drift."""
    across = rng.normal(size=d)
    across -= across.mean()
    equation = transport((1.0,) * d, lambda points: 3 * np.cos(3 * points[:, 0]))
    return lambda X: np.sin(3 * X[:, 0]) + 3 * np.exp(-((X @ across) ** 2) / 2), equation


def sums_of_waves(d: int, rng: np.random.Generator) -> Solution:
    """laplacian f + 4 f = g, with a sine in each variable and a plane wave."""
    numbers, direction = rng.uniform(1, 3, d), rng.normal(size=d)
    direction *= 2 / np.linalg.norm(direction)

    def source(points: Values) -> Values:
        return (np.sin(points * numbers) * (4 - numbers**2)).sum(axis=1)

    second = tuple(tuple(float(i == j) for j in range(d)) for i in range(d))
    equation = LinearEquation(4.0, (0.0,) * d, second, right=source)
    return lambda X: np.sin(X * numbers).sum(axis=1) + 2 * np.cos(X @ direction), equation


def square(d: int, rng: np.random.Generator) -> Solution:
    """(sum x)^2 / 2, for which sum_i f_i = d sum x."""
    return lambda X: X.sum(axis=1) ** 2 / 2, transport((1.0,) * d, lambda points: d * points.sum(axis=1))


def products(d: int, rng: np.random.Generator) -> Solution:
    """Products of a sine and a cosine of two variables; the right-hand side is no sum."""
    pairs, sizes = np.array([rng.choice(d, 2, replace=False) for _ in range(d)]), rng.normal(size=d)

    def source(points: Values) -> Values:
        # Along (1, ..., 1) the slope of sin a cos b is cos(a + b).
        return 2 * np.cos(2 * (points[:, pairs[:, 0]] + points[:, pairs[:, 1]])) @ sizes

    def function(X: Array) -> Array:
        return np.sin(2 * X[:, pairs[:, 0]]) * np.cos(2 * X[:, pairs[:, 1]]) @ sizes

    return function, transport((1.0,) * d, source)


def transport(drift: tuple[float, ...], source: Callable[[Values], Values]) -> LinearEquation:
    """b . grad f = g."""
    d = len(drift)
    return LinearEquation(0.0, drift, ((0.0,) * d,) * d, right=source)


SUMS: dict[str, Callable[[int, np.random.Generator], Solution]] = {
    "bells": bells,
    "bells and saddle": bells_and_saddle,
    "drift": drift,
    "one source": one_source,
    "sums of waves": sums_of_waves,
    "square": square,
    "products": products,
}
SOLUTIONS: dict[str, Callable[[int, np.random.Generator], Solution]] = {
    "waves": waves,
    "saddle": saddle,
    "decay": decay,
    "bells": bells,
}


def read(problem: Problem, X: Array) -> Array:
    """The objective at encoded designs (n, d), shape (n,)."""
    found = problem.exact(np.array([list(design.values()) for design in problem.space.decode(X)]))
    assert found is not None
    return found


def physics(problem: Problem, seed: int, iteration: int) -> Physics:
    """The equation at places of its own in each iteration."""
    assert problem.equation is not None and problem.domain is not None
    known = KnownPhysics(problem.equation, problem.domain, ())
    at = partial(stream, seed, iteration, Use.COLLOCATE)
    return physics_at(known, problem.space, collocated(known.domain, known.conditions, PLACES, "sobol", at))


def error(problem: Problem, name: str, seed: int) -> float:
    """Root mean square error over designs that were not run, in their standard deviations."""
    space, rng = problem.space, np.random.default_rng(seed)
    X, Z = space.sample(RESULTS, rng), space.sample(UNSEEN, rng)
    truth = read(problem, Z)
    y = read(problem, X) + NOISE * truth.std() * rng.normal(size=RESULTS)
    told = physics(problem, seed, 0) if name == "kernel" else None
    return missed(name, Observations(X, y, maximize=False, physics=told, space=space), Z, truth)


def error_of_solution(solution: str, d: int, results: int, name: str, seed: int) -> float:
    """The same of a solution over [-1, 1]^d."""
    rng = np.random.default_rng(seed)
    exact, equation = {**SOLUTIONS, **SUMS}[solution](d, rng)
    X, Z, places = (qmc.Sobol(d, seed=rng).random(n) * 2 - 1 for n in (results, UNSEEN, CLOSE))
    truth = exact(Z)
    y = exact(X) + LITTLE * truth.std() * rng.normal(size=results)
    told = None if name == "exact_gp" else Physics(equation, places, np.zeros(d), np.ones(d))
    return missed(name, Observations(X, y, maximize=False, physics=told), Z, truth)


def missed(name: str, data: Observations, Z: Array, truth: Array) -> float:
    """Root mean square error of a surrogate at Z (m, d), in standard deviations of the truth (m,)."""
    posterior = SURROGATES[name].fit(data, np.random.default_rng(1), None, no_report)
    with torch.no_grad():
        mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor(Z))[0].numpy())
    return float(np.sqrt(np.mean((mean - truth) ** 2)) / truth.std())


def regret(problem: Problem, name: str, seed: int) -> float:
    """Distance of the best of the visited designs to the optimum, without noise."""
    space, best = problem.space, problem.optimum("minimize")
    assert best is not None
    sd = NOISE * read(problem, space.sample(2000, np.random.default_rng(0))).std()
    algorithm, nothing = Algorithm(Sobol(), START, SURROGATES[name], LogEI(), Multistart()), np.empty((0, SEARCHED))
    X = algorithm.begin(space, 0, START, np.random.default_rng([seed, 0]), nothing)
    y = read(problem, X) + sd * np.random.default_rng([seed, 1, 1]).normal(size=START)
    for iteration in range(START, TRIALS):
        rng = np.random.default_rng([seed, iteration])
        told = physics(problem, seed, iteration) if name == "kernel" else None
        data = Observations(X, y, maximize=False, physics=told, space=space)
        posterior = algorithm.fit(data, rng)
        x = algorithm.propose(posterior, data, nothing, space, 1, rng).X
        X, y = np.vstack([X, x]), np.append(y, read(problem, x) + sd * rng.normal())
    return float(read(problem, X).min() - best.value)


def measured(function: str, draws: int, seeds: int) -> dict[str, object]:
    """All figures of one function."""
    found: dict[str, object] = {"function": function}
    for name in ("kernel", "exact_gp"):
        for d in DIMENSIONS:
            problem = FUNCTIONS[function](oracle=True, dimension=d)
            each = found[f"error of {name}, {d}"] = [error(problem, name, draw) for draw in range(draws)]
            print(f"{function:16} {name:9} {d:3} variables: error {np.mean(each):.3f}", flush=True)
        problem = FUNCTIONS[function](oracle=True, dimension=SEARCHED)
        each = found[f"regret of {name}"] = [regret(problem, name, seed) for seed in range(seeds)]
        print(f"{function:16} {name:9} regret {np.mean(each):.3g} {[f'{value:.3g}' for value in each]}", flush=True)
    return found


def solved(solution: str, draws: int, names: tuple[str, ...]) -> dict[str, object]:
    """All figures of one solution."""
    found: dict[str, object] = {"solution": solution}
    for d in SOLVED_IN:
        for results in (2 * d, 4 * d):
            for name in names:
                each = [error_of_solution(solution, d, results, name, draw) for draw in range(draws)]
                found[f"error of {name}, {d}, {results}"] = each
                print(
                    f"{solution:16} {name:9} {d:3} variables, {results} results: error {np.mean(each):.3f}", flush=True
                )
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    solutions = [solved(solution, options.draws, ("kernel", "exact_gp")) for solution in SOLUTIONS]
    sums = [solved(solution, options.draws, OF_SUMS) for solution in SUMS]
    found = [measured(function, options.draws, options.seeds) for function in FUNCTIONS]
    if options.json:
        figures = {"draws": options.draws, "seeds": options.seeds}
        options.json.write_text(json.dumps({**figures, "solutions": solutions, "sums": sums, "functions": found}))


if __name__ == "__main__":
    main()
