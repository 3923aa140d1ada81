"""Two continuous variables, two integers and a category, where enumeration gives the truth."""

import itertools

import numpy as np
import pytest

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace

SPACE = SearchSpace(
    (
        Continuous("a", 0.0, 1.0),
        Continuous("b", 0.0, 1.0),
        Integer("m", 0, 5),
        Integer("n", 0, 4),
        Categorical("c", ("iron", "tin", "zinc")),
    )
)
BEST = {"iron": (0.2, 2, 0.6), "tin": (0.7, 4, 0.0), "zinc": (0.9, 1, 0.3)}
TRIALS, START = 36, 12


def reading(design):
    """A bowl in a and b whose bottom moves with m, n and c."""
    a, m, depth = BEST[design["c"]]
    bowl = 4 * (design["a"] - a) ** 2 + 3 * (design["b"] - 0.1 * design["n"] - 0.2) ** 2
    return bowl + 0.2 * (design["m"] - m) ** 2 + 0.1 * (design["n"] - 3) ** 2 + depth


def enumerated():
    """The results of all combinations of discrete values, each at the best of a grid of a and b, ascending."""
    grid = np.linspace(0, 1, 21)
    return sorted(
        min(reading({"a": a, "b": b, "m": m, "n": n, "c": c}) for a, b in itertools.product(grid, grid))
        for m, n, c in itertools.product(range(6), range(5), BEST)
    )


@pytest.mark.parametrize("surrogate", [ExactGP(restarts=0), SampledLinear()], ids=["exact_gp", "tangent"])
def test_a_campaign_in_a_mixed_space_finds_the_combination_that_enumeration_finds(surrogate):
    algorithm = Algorithm(Sobol(), START, surrogate, LogEI(), Multistart(n_samples=256, n_starts=4, max_iterations=30))
    X = algorithm.initial.propose(SPACE, 0, START, np.random.default_rng(1))
    best, second, *_ = enumerated()
    while min(map(reading, SPACE.decode(X))) >= (best + second) / 2:
        assert len(X) < TRIALS, f"not found in {TRIALS} trials"
        data = Observations(X, [reading(design) for design in SPACE.decode(X)], maximize=False)
        rng = np.random.default_rng(len(X))
        X = np.vstack([X, algorithm.propose(algorithm.fit(data, rng), data, np.empty((0, 7)), SPACE, 1, rng).X])
