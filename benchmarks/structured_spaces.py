"""Gain of telling a space what is known: angles, ordered levels, conditions, parts that may be exchanged.

Each problem is searched by `gp_ei`'s words (exact_gp, log_ei, multistart), with the structure stated and with the same
variables as plain ones; the regret of the best design so far is told. ``sorted`` leaves out the exchanged copies of
each result from which models learn. One line a run: problem, form, seed, regrets.
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.coordinates.posterior import of_designs
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import Posterior, no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.simulators.chips import HeatedPlateFindiff
from fieldcraft.physics.space import Categorical, Continuous, Design, Exchangeable, OnlyIf, SearchSpace

LEVELS = tuple(f"s{i}" for i in range(9))
MESH = HeatedPlateFindiff()


@dataclass(frozen=True)
class Case:
    """A problem to be minimised.

    Args:
        space: Its space, with its structure.
        plain: The same variables without it.
        read: Result of a design.
        least: Least result.
        start: Designs before the first model.
        trials: All of them.
    """

    space: SearchSpace
    plain: SearchSpace
    read: Callable[[Mapping[str, Any]], float]
    least: float
    start: int
    trials: int


def torsion(first: float, second: float) -> Case:
    """Energy of two angles and a length; its minimum is at the given angles, in degrees."""

    def read(design: Mapping[str, Any]) -> float:
        a, b = math.radians(design["a"] - first), math.radians(design["b"] - second)
        turned = math.cos(a) + 0.5 * math.cos(2 * a) + math.cos(b) + 0.3 * math.cos(3 * b) + 0.7 * math.cos(a - b)
        return 4 - turned + float(design["r"] - 0.3) ** 2

    spaces = (
        SearchSpace(
            (*(Continuous(name, 0, 360, "deg", periodic=around) for name in "ab"), Continuous("r", 0, 1)),
        )
        for around in (True, False)
    )
    return Case(*spaces, read, 0.5, 8, 28)


def methods() -> Case:
    """Three methods, one with an option and one with two of its own."""

    def read(design: Mapping[str, Any]) -> float:
        common = float(design["x"] - 0.4) ** 2
        if design["method"] == "a":
            return 0.35 + common + 2 * float(design["t"] - 0.7) ** 2 + 0.1 * math.sin(9 * design["t"])
        if design["method"] == "b":
            p, q = design["p"] - 0.2, design["q"] - 0.8
            return 0.1 + common + float(2 * p**2 + 1.5 * q**2 + 0.4 * p * q)
        return 0.3 + common

    variables = (Categorical("method", ("a", "b", "c")), *(Continuous(name, 0, 1) for name in "xtpq"))
    only = tuple(OnlyIf(name, "method", (of,)) for name, of in (("t", "a"), ("p", "b"), ("q", "b")))
    return Case(SearchSpace(variables, only_if=only), SearchSpace(variables), read, 0.1, 10, 24)


def sizes() -> Case:
    """Nine sizes in order and two numbers."""

    def read(design: Mapping[str, Any]) -> float:
        place = LEVELS.index(design["size"])
        own = 0.04 * (place - 5.6) ** 2 + 0.15 * math.sin(1.3 * place)
        return own + 2 * float(design["x"] - 0.1 * place) ** 2 + float(design["y"] - 0.3) ** 2

    numbers = Continuous("x", 0, 1), Continuous("y", 0, 1)
    spaces = (SearchSpace((Categorical("size", LEVELS, ordered=order), *numbers)) for order in (True, False))
    least = min(0.04 * (i - 5.6) ** 2 + 0.15 * math.sin(1.3 * i) for i in range(9))
    return Case(*spaces, read, least, 8, 22)


class TwinChips(Chips):
    """The problem chips with 16 W in each chip, not 20 W and 12 W, which may not be swapped."""

    def heating(self, design: Design, x: Array, y: Array) -> Array:
        """q in W/m^2, shape (n, m): half of what the chips of 20 W and 12 W give in either order."""
        swapped = {"x1": design["x2"], "y1": design["y2"], "x2": design["x1"], "y2": design["y1"]}
        return (super().heating(design, x, y) + super().heating(swapped, x, y)) / 2


def twin_chips() -> Case:
    """Two chips of one kind on 96 x 64 cells; the least temperature is the best of eight searches by Nelder-Mead."""
    problem = TwinChips()

    def read(design: Mapping[str, Any]) -> float:
        run = MESH.run(problem, design, np.random.default_rng(0))
        return float(problem.evaluate(design, run)["max_temperature"])

    variables, swap = problem.space.variables, Exchangeable((("x1", "y1"), ("x2", "y2")))
    return Case(SearchSpace(variables, exchangeable=(swap,)), SearchSpace(variables), read, 98.769, 10, 22)


def wells() -> Case:
    """Two parts of one kind, each in one of two wells that want one each."""
    wanted, names = np.array([[0.2, 0.7], [0.75, 0.3]]), ("x1", "y1", "x2", "y2")

    def read(design: Mapping[str, Any]) -> float:
        parts = np.array([design[name] for name in names]).reshape(2, 2)
        apart = np.sum((parts[:, None] - wanted) ** 2, axis=2)
        nearest = np.logaddexp(-8 * (apart[0, 0] + apart[1, 1]), -8 * (apart[0, 1] + apart[1, 0]))
        return float(-nearest / 8 + 0.15 * np.sin(9 * parts[:, 0]).sum() + 0.1 * np.cos(7 * parts[:, 1]).sum())

    variables = tuple(Continuous(name, 0, 1) for name in names)
    swap = Exchangeable((("x1", "y1"), ("x2", "y2")))
    starts = np.random.default_rng(0).random((60, 4))
    least = min(
        minimize(lambda v: read(dict(zip(names, v, strict=True))), start, bounds=[(0, 1)] * 4).fun for start in starts
    )
    return Case(SearchSpace(variables, exchangeable=(swap,)), SearchSpace(variables), read, float(least), 10, 24)


def antennas() -> Case:
    """Three antennas of one kind for three groups of users; minus the mean log of a user's signal."""
    rng, middles = np.random.default_rng(7), ((0.2, 0.3), (0.7, 0.2), (0.55, 0.8))
    users = np.concatenate([rng.normal(middle, 0.08, (13, 2)) for middle in middles]).clip(0, 1)
    blocks = tuple((f"x{i}", f"y{i}") for i in (1, 2, 3))
    names = [name for block in blocks for name in block]

    def loss(places: Array) -> float:
        apart = np.sum((users[:, None] - places.reshape(3, 2)) ** 2, axis=2)
        return -float(np.log(0.05 + np.exp(-apart / (2 * 0.15**2)).sum(axis=1)).mean())

    starts = np.random.default_rng(0).random((60, 6))
    least = min(minimize(loss, start, bounds=[(0, 1)] * 6).fun for start in starts)
    variables = tuple(Continuous(name, 0, 1) for name in names)
    spaces = SearchSpace(variables, exchangeable=(Exchangeable(blocks),)), SearchSpace(variables)
    return Case(*spaces, lambda design: loss(np.array([design[name] for name in names])), float(least), 14, 34)


def styblinski() -> Case:
    """Styblinski and Tang's function of three exchangeable numbers, over 3; its optimum has all of them equal."""

    def read(design: Mapping[str, Any]) -> float:
        z = 10 * np.array([design[name] for name in "abc"]) - 5
        return float(np.mean(z**4 - 16 * z**2 + 5 * z) / 2)

    variables = tuple(Continuous(name, 0, 1) for name in "abc")
    swap = Exchangeable((("a",), ("b",), ("c",)))
    least = -39.16616570377142
    return Case(SearchSpace(variables, exchangeable=(swap,)), SearchSpace(variables), read, least, 8, 24)


CASES: dict[str, Callable[[], Case]] = {
    "torsion-10-340": lambda: torsion(10, 340),
    "torsion-200-100": lambda: torsion(200, 100),
    "torsion-355-180": lambda: torsion(355, 180),
    "methods": methods,
    "sizes": sizes,
    "wells": wells,
    "twin-chips": twin_chips,
    "antennas": antennas,
    "styblinski": styblinski,
}


def sorted_alone(data: Observations, space: SearchSpace, rng: np.random.Generator) -> Posterior:
    """The process of results of which each counts once, its blocks sorted."""
    coordinates = ModelCoordinates(space)
    return of_designs(ExactGP().fit(coordinates.seen(data), rng, None, no_report), coordinates)


def regrets(case: Case, form: str, seed: int) -> list[float]:
    """Regret of the best design after each trial."""
    space = case.plain if form == "plain" else case.space
    algorithm = Algorithm(Sobol(), case.start, ExactGP(), LogEI(), Multistart())
    X = algorithm.begin(space, 0, case.start, np.random.default_rng([seed, 0]))
    y = [case.read(design) for design in space.decode(X)]
    while len(y) < case.trials:
        data = Observations(X, y, maximize=False, exact=True, space=space, columns=space.columns)
        rng = np.random.default_rng([seed, len(y), 1])
        posterior = sorted_alone(data, space, rng) if form == "sorted" else algorithm.fit(data, rng)
        rng = np.random.default_rng([seed, len(y), 2])
        x = algorithm.propose(posterior, data, np.empty((0, space.dimension)), space, 1, rng).X
        X, y = np.vstack([X, x]), [*y, case.read(space.decode(x)[0])]
    return [float(best) - case.least for best in np.minimum.accumulate(y)]


def main() -> None:
    """Run what was asked for."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--forms", nargs="+", choices=("plain", "stated", "sorted"), default=["plain", "stated"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--out", type=Path, help="file to which lines are appended")
    asked = parser.parse_args()
    for name in asked.only:
        for form in asked.forms:
            for seed in asked.seeds:
                found = regrets(CASES[name](), form, seed)
                line = json.dumps({"problem": name, "form": form, "seed": seed, "regrets": found})
                print(line[:200], flush=True)
                if asked.out:
                    with asked.out.open("a") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
