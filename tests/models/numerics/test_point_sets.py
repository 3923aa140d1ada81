import numpy as np
import pytest
from scipy.stats import qmc

from fieldcraft.models.numerics.point_sets import every_point, is_feasible, middle, sobol_points, take, uniform_points
from fieldcraft.models.proposers.centred import Centred
from fieldcraft.models.proposers.random import Random
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.physics.space import (
    Categorical,
    Continuous,
    Image,
    Integer,
    LinearConstraint,
    LinearEquality,
    SearchSpace,
)

BOX = SearchSpace((Continuous("x", 0.0, 10.0), Continuous("y", -3.0, 1.0)))
MIXED = SearchSpace(
    (Continuous("t", 20.0, 90.0), Integer("n", 2, 6), Categorical("metal", ("iron", "copper", "tin"))),
    (LinearConstraint({"t": 1.0, "n": 10.0}, 120.0),),
)
# Two parts of a whole, to a thousandth: less than one point in a thousand of the box is feasible.
THIN = SearchSpace(
    (Continuous("a", 0.0, 1.0), Continuous("b", 0.0, 1.0)),
    (LinearConstraint({"a": 1.0, "b": 1.0}, 1.0005), LinearConstraint({"a": -1.0, "b": -1.0}, -0.9995)),
)
# Half of the designs violate the constraint.
DISCRETE = SearchSpace(
    (Integer("n", 1, 4), Categorical("side", ("left", "right"))), (LinearConstraint({"n": 1.0}, 2.0),)
)


def test_sobol_points_are_spread_more_evenly_than_random_ones():
    spread = [
        qmc.discrepancy((take(points(BOX, np.random.default_rng(1)), 256) + 1) / 2)
        for points in (sobol_points, uniform_points)
    ]
    assert spread[0] < spread[1] / 10


def test_every_level_is_equally_likely():
    space = SearchSpace((Integer("n", 2, 6), Categorical("metal", ("iron", "copper", "tin", "lead"))))
    designs = space.decode(take(sobol_points(space, np.random.default_rng(0)), 2000))
    for name, levels in (("n", range(2, 7)), ("metal", ("iron", "copper", "tin", "lead"))):
        counts = [sum(design[name] == level for design in designs) for level in levels]
        assert sum(counts) == 2000
        assert max(counts) - min(counts) < 0.05 * 2000 / len(counts)


@pytest.mark.parametrize("points", [sobol_points, uniform_points])
@pytest.mark.parametrize("space", [MIXED, THIN, DISCRETE])
def test_points_satisfy_the_constraints(points, space):
    X = take(points(space, np.random.default_rng(3)), 300)
    assert is_feasible(space, X).all()
    for design in space.decode(X):
        space.check(design)


def test_points_beyond_a_constraint_are_left_out_and_not_pushed_onto_it():
    half = SearchSpace(BOX.variables, (LinearConstraint({"x": 1.0}, 5.0),))
    x = np.array([design["x"] for design in half.decode(take(sobol_points(half, np.random.default_rng(0)), 512))])
    assert x.max() <= 5.0
    assert np.histogram(x, bins=5, range=(0, 5))[0] == pytest.approx(512 / 5, rel=0.1)


def test_every_pixel_of_an_image_takes_a_dimension_of_its_own():
    space = SearchSpace((Integer("n", 1, 3), Image("face", (2, 2), 0.0, 1.0), Continuous("t", 0.0, 1.0)))
    X = take(sobol_points(space, np.random.default_rng(0)), 256)
    assert X.shape == (256, 6)
    for column in range(1, 6):
        assert np.histogram(X[:, column], bins=8, range=(-1, 1))[0].tolist() == [32] * 8
    np.testing.assert_allclose(np.corrcoef(X.T), np.eye(6), atol=0.1)
    assert every_point(space, 10**6) is None


def test_every_point_of_a_small_discrete_space_is_listed_once():
    designs = DISCRETE.decode(every_point(DISCRETE, 8))
    found = sorted((design["n"], design["side"]) for design in designs)
    assert found == [(1, "left"), (1, "right"), (2, "left"), (2, "right")]


def test_points_are_not_listed_beyond_the_limit_or_with_a_continuous_variable():
    assert every_point(DISCRETE, 7) is None
    assert every_point(MIXED, 10**6) is None


def test_sobol_and_random_propose_different_points():
    rng = np.random.default_rng
    assert not np.allclose(Sobol().propose(BOX, 0, 4, rng(0)), Random().propose(BOX, 0, 4, rng(0)))


def test_the_middle_of_a_space_has_the_middle_of_each_variable():
    assert BOX.decode(middle(BOX)) == [{"x": 5.0, "y": -1.0}]
    assert MIXED.decode(middle(MIXED)) == [{"t": 55.0, "n": 4, "metal": "copper"}]
    shares = SearchSpace(
        tuple(Continuous(name, 0.0, 1.0) for name in "abc"), (LinearEquality(dict.fromkeys("abc", 1.0), 1.0),)
    )
    (design,) = shares.decode(middle(shares))
    assert sum(design.values()) == pytest.approx(1.0, abs=1e-12)
    assert sorted(design.values()) == pytest.approx([1 - 0.5**0.5, 0.5**1.5, 0.5**1.5], abs=1e-9)


def test_a_centred_sequence_is_the_middle_and_then_sobols():
    first, *others = Centred().propose(BOX, 0, 5, np.random.default_rng(2))
    np.testing.assert_array_equal(first, [0.0, 0.0])
    np.testing.assert_array_equal(others, Sobol().propose(BOX, 0, 4, np.random.default_rng(2)))


def test_a_middle_that_a_known_constraint_excludes_is_left_out():
    off = SearchSpace(BOX.variables, (LinearConstraint({"x": 1.0}, 4.0),))
    assert middle(off).shape == (0, 2)
    rows = [each.propose(off, 0, 5, np.random.default_rng(2)) for each in (Centred(), Sobol())]
    np.testing.assert_array_equal(*rows)
