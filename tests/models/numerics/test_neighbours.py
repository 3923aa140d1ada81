"""Neighbours in the discrete variables against lists that can be written down."""

import numpy as np

from fieldcraft.models.numerics.neighbours import neighbours
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace


def moves(space, **design):
    return space.decode(neighbours(space, space.encode([design])[0]))


def test_an_integer_goes_by_powers_of_two_and_a_category_to_every_other_level():
    space = SearchSpace((Continuous("t", 0.0, 1.0), Integer("n", 0, 10), Categorical("c", ("a", "b", "c"))))
    found = moves(space, t=0.25, n=3, c="b")
    assert all(design["t"] == 0.25 for design in found)
    assert sorted(design["n"] for design in found if design["c"] == "b") == [1, 2, 4, 5, 7]
    assert sorted(design["c"] for design in found if design["n"] == 3) == ["a", "c"]
    assert len(found) == 7


def test_a_continuous_space_has_no_neighbours():
    space = SearchSpace((Continuous("t", 0.0, 1.0),))
    assert neighbours(space, np.zeros(1)).shape == (0, 1)


def test_a_neighbour_beyond_a_constraint_comes_back_into_the_space():
    space = SearchSpace(
        (Continuous("t", 0.0, 10.0), Integer("n", 0, 4)), (LinearConstraint({"t": 1.0, "n": 2.0}, 11.0),)
    )
    found = moves(space, t=5.0, n=3)
    for design in found:
        space.check(design)
    (up,) = [design for design in found if design["n"] == 4]
    assert abs(up["t"] - 3.0) < 1e-6
