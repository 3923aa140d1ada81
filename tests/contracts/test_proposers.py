"""The contract of models/proposer.py, for every file in models/proposers."""

import numpy as np
import pytest
from kinds import generators, is_frozen_dataclass, kinds, public_class

from fieldcraft.models.capability import Capability, required
from fieldcraft.models.observations import Emulator
from fieldcraft.models.proposer import TakesEmulators
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, LinearEquality, SearchSpace

PACKAGE = "fieldcraft.models.proposers"
SPACE = SearchSpace(
    (Continuous("x", 0.0, 2.0), Integer("n", 1, 5), Categorical("metal", ("iron", "tin"))),
    (LinearConstraint({"x": 2.0, "n": 1.0}, 6.0),),
)


MIXTURE = SearchSpace(
    tuple(Continuous(name, 0.0, 1.0) for name in "abcdef"), (LinearEquality(dict.fromkeys("abcdef", 1.0), 1.0),)
)


@pytest.fixture(params=kinds(PACKAGE))
def proposer(request):
    return public_class(PACKAGE, request.param)()


def bowl(X):
    return (X**2).sum(axis=1)


def propose(proposer, start, q, seed=4):
    made = given(proposer)
    return made.propose(SPACE, start, q, np.random.default_rng(seed))


def given(proposer):
    """The proposer, with an emulator if it asks for one."""
    asks = isinstance(proposer, TakesEmulators)
    assert asks == (Capability.EMULATOR in required(proposer))
    return proposer.given((Emulator(bowl),), maximize=False) if asks else proposer


def test_a_proposer_is_one_public_frozen_dataclass(proposer):
    assert is_frozen_dataclass(type(proposer))


def test_every_point_is_feasible_and_encoded_exactly(proposer):
    X = propose(proposer, 0, 64)
    assert X.shape == (64, SPACE.dimension)
    for design in SPACE.decode(X):
        SPACE.check(design)
    np.testing.assert_allclose(SPACE.encode(SPACE.decode(X)), X, atol=1e-12)


@pytest.mark.parametrize(("start", "q"), [(0, 1), (3, 4), (250, 20), (700, 2)])
def test_a_later_part_of_the_sequence_is_the_same_asked_for_alone(proposer, start, q):
    np.testing.assert_array_equal(propose(proposer, start, q), propose(proposer, 0, start + q)[start:])


def test_the_seed_determines_the_sequence(proposer):
    np.testing.assert_array_equal(propose(proposer, 0, 8), propose(proposer, 0, 8))
    assert not np.array_equal(propose(proposer, 0, 8), propose(proposer, 0, 8, seed=5))


def test_designs_reach_every_level_and_both_ends(proposer):
    designs = SPACE.decode(propose(proposer, 0, 256))
    assert {design["n"] for design in designs} == {1, 2, 3, 4, 5}
    assert {design["metal"] for design in designs} == {"iron", "tin"}
    x = [design["x"] for design in designs]
    assert min(x) < 0.1
    assert max(x) > 1.9


def test_shares_of_a_mixture_add_up_to_the_whole_and_none_is_favoured(proposer):
    X = (given(proposer).propose(MIXTURE, 0, 256, np.random.default_rng(4)) + 1) / 2
    np.testing.assert_allclose(X.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    # Uniform: each of the six has the mean 1/6 and a standard deviation of 0.141; uncertainty goes further out.
    assert np.abs(X.mean(axis=0) - 1 / 6).max() < 4 * 0.2 / 16
    assert (X.std(axis=0) > 0.12).all()


@pytest.mark.parametrize(("start", "q"), [(-1, 2), (0, 0)])
def test_a_range_that_does_not_exist_is_refused(proposer, start, q):
    with pytest.raises(ValueError, match="start must be >= 0 and q >= 1"):
        propose(proposer, start, q)


def test_the_global_generators_are_left_alone(proposer):
    before = generators()
    propose(proposer, 0, 8)
    assert generators() == before
