"""The contract of models/maximizer.py, for every file in models/maximizers."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from kinds import generators, is_frozen_dataclass, kinds, public_class

from fieldcraft.models.acquisitions.add_ucb import AddUCB
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.capability import Capability, provided, required
from fieldcraft.models.maximizer import SAME
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.criteria import Optimism
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.grouped_gp import GroupedGP
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Integer,
    LinearConstraint,
    LinearEquality,
    QuadraticConstraint,
    SearchSpace,
)

PACKAGE = "fieldcraft.models.maximizers"
EXACT = ExactGP(restarts=0)
# What keeps a test short, and its result the same each time.
BRIEF = {"pk_miqp": {"nodes": 1, "time_s": None, "form": "q", "tolerance": None}}
SPACES = {
    "box": SearchSpace((Continuous("x", 0.0, 2.0), Continuous("y", -5.0, 5.0))),
    "constrained": SearchSpace(
        (Continuous("x", 0.0, 2.0), Continuous("y", -5.0, 5.0)),
        (
            LinearConstraint({"x": 1.0, "y": 1.0}, 1.0),
            # Encoded, the outside of a disc about the origin.
            QuadraticConstraint({("x", "x"): -25.0, ("y", "y"): -1.0}, {"x": 50.0}, 20.0),
        ),
    ),
    "mixed": SearchSpace(
        (Continuous("x", 0.0, 2.0), Integer("n", 1, 5), Categorical("metal", ("iron", "tin"))),
        (LinearConstraint({"x": 2.0, "n": 1.0}, 6.0),),
    ),
    "mixture": SearchSpace(
        (Continuous("x", 0.0, 1.0), Continuous("y", 0.1, 1.0), Continuous("z", 0.0, 0.6), Categorical("w", ("a", "b"))),
        (LinearEquality({"x": 1.0, "y": 1.0, "z": 1.0}, 1.0), LinearConstraint({"x": 1.0, "y": -1.0}, 0.3)),
    ),
    "counts": SearchSpace(
        (Integer("n", 0, 4), Integer("m", 0, 6), Continuous("x", 0.0, 2.0), Continuous("y", 0.0, 2.0)),
        (LinearEquality({"n": 1.0, "m": 1.0}, 6.0), LinearEquality({"m": 1.0, "x": 2.0, "y": 1.0}, 5.0)),
    ),
    "discrete": SearchSpace((Integer("n", 1, 5), Categorical("metal", ("iron", "tin")))),
}


class Ripples:
    """A score with several hills, lower near the points chosen before."""

    def value(self, X, slot, chosen):
        hills = torch.sin(4 * X + 0.5 * slot).sum(dim=1) - 0.1 * X.square().sum(dim=1)
        near = torch.exp(-10 * ((X[:, None] - chosen[None]) ** 2).sum(dim=-1)).sum(dim=1)
        return hills - near


def ripples(space):
    return Ripples()


@cache
def posterior(space, surrogate=EXACT):
    """A Gaussian process fitted to ripples at 12 points, and what it was fitted to."""
    X = space.sample(12, np.random.default_rng(4))
    y = -Ripples().value(torch.tensor(X), 0, torch.empty(0, space.dimension, dtype=torch.float64)).numpy()
    data = Observations(X, y, maximize=False, columns=space.columns)
    return surrogate.fit(data, np.random.default_rng(5), None, no_report), data


def process(space):
    """A confidence bound of an exact Gaussian process: a score that every maximizer takes."""
    made, data = posterior(space)
    nothing = torch.empty(0, space.dimension, dtype=torch.float64)
    return UCB().score(made, data, nothing, 1, np.random.default_rng(0))


def separable(space):
    """A sum of confidence bounds of groups of variables, those in a constraint in one group."""
    groups = ()
    for names in (constraint.names for constraint in space.constraints):
        shared = [group for group in groups if {*group} & {*names}]
        merged = tuple(dict.fromkeys([name for group in (*shared, names) for name in group]))
        groups = (*(group for group in groups if group not in shared), merged)
    made, data = posterior(space, GroupedGP(restarts=0, groups=groups))
    nothing = torch.empty(0, space.dimension, dtype=torch.float64)
    return AddUCB().score(made, data, nothing, 1, np.random.default_rng(0))


def broken(space):
    nothing = torch.empty(0, space.dimension, dtype=torch.float64)
    return AnalyticScore(posterior(space)[0], nothing, lambda _: Optimism(math.nan), math.nan)


def cases():
    """Every maximizer with a score that it takes; once more those that take a sum group by group."""
    for name in kinds(PACKAGE):
        kind = public_class(PACKAGE, name)
        yield name, process if Capability.EXACT in required(kind) else ripples
        if Capability.BY_GROUP in provided(kind):
            yield name, separable


@pytest.fixture(params=cases(), ids=lambda case: f"{case[0]}-{case[1].__name__}")
def case(request):
    """A maximizer, and the score that it is given, by space."""
    name, score = request.param
    return public_class(PACKAGE, name)(**BRIEF.get(name, {})), score


@pytest.fixture(params=SPACES)
def space(request):
    return SPACES[request.param]


def maximize(case, space, seed=0, q=3, taken=None):
    maximizer, of = case
    return maximizer.maximize(of(space), space, q, np.random.default_rng(seed), taken)


found_in = cache(maximize)


@pytest.mark.parametrize("kind", kinds(PACKAGE))
def test_a_maximizer_is_one_public_frozen_dataclass(kind):
    assert is_frozen_dataclass(public_class(PACKAGE, kind))


def test_every_place_gets_a_feasible_design(case, space):
    X = found_in(case, space).X
    assert X.shape == (3, space.dimension)
    for design in space.decode(X):
        space.check(design)
    np.testing.assert_allclose(space.encode(space.decode(X)), X, atol=1e-12)


def test_the_value_is_the_score_of_the_returned_point(case, space):
    found = found_in(case, space)
    for slot in range(3):
        X = torch.tensor(found.X)
        value = case[1](space).value(X[slot : slot + 1], slot, X[:slot]).detach()
        assert found.value[slot] == pytest.approx(float(value), abs=1e-10)


def free(samples, chosen):
    """Which samples (n, d) are none of the points chosen (j, d) for the places before."""
    return (torch.cdist(samples, torch.tensor(chosen), p=torch.inf) >= SAME).all(dim=1)


def test_no_place_is_worse_than_random_search(case, space):
    found = found_in(case, space)
    samples = torch.tensor(space.sample(500, np.random.default_rng(9)))
    for slot in range(3):
        values = case[1](space).value(samples, slot, torch.tensor(found.X[:slot]))
        assert found.value[slot] >= float(values[free(samples, found.X[:slot])].max()) - 1e-9


def test_the_same_seed_gives_the_same_batch_bit_for_bit_and_the_global_generators_are_left_alone(case, space):
    one = found_in(case, space)
    before = generators()
    other = maximize(case, space)
    assert generators() == before
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.value, other.value)


def test_a_certificate_goes_with_each_place_or_with_none(case, space):
    found = found_in(case, space)
    for slot, certificate in enumerate(found.certificates or ()):
        assert certificate.value == found.value[slot]
        assert certificate.bound >= certificate.value and certificate.gap == certificate.bound - certificate.value
    assert found.certificates is None or len(found.certificates) == 3


def test_no_sample_exceeds_a_bound(case, space):
    found = found_in(case, space)
    samples = torch.tensor(space.sample(500, np.random.default_rng(9)))
    for slot, certificate in enumerate(found.certificates or ()):
        if certificate.bound_of != "exact":
            continue
        values = case[1](space).value(samples, slot, torch.tensor(found.X[:slot]))
        assert float(values[free(samples, found.X[:slot])].max()) <= certificate.bound


def test_no_point_of_a_discrete_space_comes_twice(case):
    X = found_in(case, SPACES["discrete"], q=10).X
    assert len(np.unique(X, axis=0)) == 10


def test_no_point_that_is_taken_is_chosen(case, space):
    first = found_in(case, space).X
    rest = maximize(case, space, taken=first)
    together = np.vstack([first, rest.X])
    distances = np.abs(together[:, None] - together[None]).max(axis=2)[np.triu_indices(6, 1)]
    assert distances.min() >= SAME
    for slot in range(3):
        X = torch.tensor(rest.X)
        assert rest.value[slot] == pytest.approx(float(case[1](space).value(X[[slot]], slot, X[:slot])), abs=1e-10)


def test_a_discrete_space_all_of_which_is_taken_is_refused(case):
    every = found_in(case, SPACES["discrete"], q=10).X
    with pytest.raises(ValueError, match="No point is left for place 1 of the batch"):
        maximize(case, SPACES["discrete"], q=1, taken=every)


def test_a_score_that_is_nan_is_refused(case):
    with pytest.raises(ValueError, match="nan"):
        maximize((case[0], broken), SPACES["box"], q=1)
