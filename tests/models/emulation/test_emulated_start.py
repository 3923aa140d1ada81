"""The start of an emulated campaign: the emulator's best design, then a Sobol sequence."""

import numpy as np
import pytest

from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.observations import Emulator
from fieldcraft.models.proposers.emulated import Emulated
from fieldcraft.physics.space import Continuous, LinearConstraint, LinearEquality, SearchSpace

SPACE = SearchSpace((Continuous("x", 0.0, 2.0), Continuous("y", -1.0, 1.0)))
BEST = np.array([0.4, -0.2])


def bowl(X):
    return 3 + ((X - BEST) ** 2).sum(axis=1)


def kinked(X):
    return np.abs(X - BEST).max(axis=1)


def started(emulators, n, maximize=False, space=SPACE, taken=None):
    algorithm = Algorithm(Emulated(), 5)
    return algorithm.begin(space, 0, n, np.random.default_rng(3), taken, emulators, maximize=maximize)


@pytest.mark.parametrize(("emulator", "within"), [(bowl, 1e-5), (kinked, 0.02)])
def test_the_first_design_is_the_emulators_best(emulator, within):
    np.testing.assert_allclose(started((Emulator(emulator),), 1)[0], BEST, atol=within)


def test_where_the_objective_is_maximised_it_is_the_emulators_largest():
    X = started((Emulator(lambda X: -bowl(X)),), 1, maximize=True)
    np.testing.assert_allclose(X[0], BEST, atol=1e-5)
    X = started((Emulator(bowl),), 1, maximize=True)
    np.testing.assert_allclose(X[0], [-1.0, 1.0], atol=1e-9)


def test_emulated_constraints_are_kept_to():
    """Least distance from BEST where x + y >= 0.8: BEST + 0.3."""
    X = started((Emulator(bowl), Emulator(lambda X: 0.8 - X.sum(axis=1))), 1)
    np.testing.assert_allclose(X[0], BEST + 0.3, atol=1e-4)


def test_known_constraints_and_totals_are_kept_to():
    x, y = SPACE.variables
    bounded = SearchSpace((x, y), (LinearConstraint({"x": 1.0}, 1.2),))
    np.testing.assert_allclose(started((Emulator(bowl),), 1, space=bounded)[0], [0.2, -0.2], atol=1e-5)
    tied = SearchSpace((x, y), (LinearEquality({"x": 1.0, "y": 1.0}, 1.6),))
    np.testing.assert_allclose(started((Emulator(bowl),), 1, space=tied)[0], BEST + 0.2, atol=1e-4)


def test_those_after_it_are_a_sobol_sequence_that_does_not_depend_on_the_emulator():
    first, second = started((Emulator(bowl),), 5), started((Emulator(kinked),), 5)
    np.testing.assert_array_equal(first[1:], second[1:])
    assert len(np.unique(first.round(6), axis=0)) == 5


def test_a_best_design_that_was_tried_is_replaced_by_another():
    taken = started((Emulator(bowl),), 1)
    again = started((Emulator(bowl),), 1, taken=taken)
    assert np.abs(again - taken).max() > 1e-9


def test_without_an_emulator_it_is_refused():
    with pytest.raises(ValueError, match="begins with the emulator's best design: give it the emulators"):
        started((), 1)
