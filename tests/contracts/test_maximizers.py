"""The contract of models/maximizer.py, for every file in models/maximizers."""

import numpy as np
import pytest
import torch
from kinds import is_frozen_dataclass, kinds, public_class

from models.maximizer import SAME
from physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace

PACKAGE = "models.maximizers"
SPACES = {
    "box": SearchSpace((Continuous("x", 0.0, 2.0), Continuous("y", -5.0, 5.0))),
    "constrained": SearchSpace(
        (Continuous("x", 0.0, 2.0), Continuous("y", -5.0, 5.0)), (LinearConstraint({"x": 1.0, "y": 1.0}, 1.0),)
    ),
    "mixed": SearchSpace(
        (Continuous("x", 0.0, 2.0), Integer("n", 1, 5), Categorical("metal", ("iron", "tin"))),
        (LinearConstraint({"x": 2.0, "n": 1.0}, 6.0),),
    ),
    "discrete": SearchSpace((Integer("n", 1, 5), Categorical("metal", ("iron", "tin")))),
}


class Ripples:
    """A score with several hills, lower near the points chosen before."""

    def value(self, X, slot, chosen):
        hills = torch.sin(4 * X + 0.5 * slot).sum(dim=1) - 0.1 * X.square().sum(dim=1)
        near = torch.exp(-10 * ((X[:, None] - chosen[None]) ** 2).sum(dim=-1)).sum(dim=1)
        return hills - near


@pytest.fixture(params=kinds(PACKAGE))
def maximizer(request):
    return public_class(PACKAGE, request.param)()


@pytest.fixture(params=SPACES)
def space(request):
    return SPACES[request.param]


def maximize(maximizer, space, seed=0):
    return maximizer.maximize(Ripples(), space, 3, np.random.default_rng(seed))


def test_a_maximizer_is_one_public_frozen_dataclass(maximizer):
    assert is_frozen_dataclass(type(maximizer))


def test_every_place_gets_a_feasible_design(maximizer, space):
    X = maximize(maximizer, space).X
    assert X.shape == (3, space.dimension)
    for design in space.decode(X):
        space.check(design)
    np.testing.assert_allclose(space.encode(space.decode(X)), X, atol=1e-12)


def test_the_value_is_the_score_of_the_returned_point(maximizer, space):
    found = maximize(maximizer, space)
    for slot in range(3):
        X = torch.tensor(found.X)
        value = Ripples().value(X[slot : slot + 1], slot, X[:slot])
        assert found.value[slot] == pytest.approx(float(value), abs=1e-10)


def test_no_place_is_worse_than_random_search(maximizer, space):
    found = maximize(maximizer, space)
    samples = torch.tensor(space.sample(500, np.random.default_rng(9)))
    for slot in range(3):
        best = Ripples().value(samples, slot, torch.tensor(found.X[:slot])).max()
        assert found.value[slot] >= float(best) - 1e-9


def test_the_same_seed_gives_the_same_batch_bit_for_bit(maximizer, space):
    one, other = maximize(maximizer, space), maximize(maximizer, space)
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.value, other.value)


def test_a_bound_is_never_below_the_value(maximizer, space):
    found = maximize(maximizer, space)
    assert (found.bound is None) == (found.gap is None)
    if found.bound is not None:
        assert np.all(found.bound >= found.value)
        np.testing.assert_allclose(found.gap, found.bound - found.value)


def test_no_point_of_a_discrete_space_comes_twice(maximizer):
    X = maximizer.maximize(Ripples(), SPACES["discrete"], 10, np.random.default_rng(0)).X
    assert len(np.unique(X, axis=0)) == 10


def test_no_point_that_is_taken_is_chosen(maximizer, space):
    first = maximize(maximizer, space).X
    rest = maximizer.maximize(Ripples(), space, 3, np.random.default_rng(0), first)
    together = np.vstack([first, rest.X])
    distances = np.abs(together[:, None] - together[None]).max(axis=2)[np.triu_indices(6, 1)]
    assert distances.min() >= SAME
    for slot in range(3):
        X = torch.tensor(rest.X)
        assert rest.value[slot] == pytest.approx(float(Ripples().value(X[[slot]], slot, X[:slot])), abs=1e-10)


def test_a_discrete_space_all_of_which_is_taken_is_refused(maximizer):
    every = maximizer.maximize(Ripples(), SPACES["discrete"], 10, np.random.default_rng(0)).X
    with pytest.raises(ValueError, match="No point is left for place 1 of the batch"):
        maximizer.maximize(Ripples(), SPACES["discrete"], 1, np.random.default_rng(0), every)


def test_a_score_that_is_nan_is_refused(maximizer):
    class Broken:
        def value(self, X, slot, chosen):
            return X.sum(dim=1) * torch.nan

    with pytest.raises(ValueError, match="nan"):
        maximizer.maximize(Broken(), SPACES["box"], 1, np.random.default_rng(0))


def test_the_global_generators_are_left_alone(maximizer):
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    maximize(maximizer, SPACES["mixed"])
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)
