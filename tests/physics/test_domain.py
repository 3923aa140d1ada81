"""Domains and the collocation points in them."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import kstest, qmc

from fieldcraft.physics.collocation import collocate, collocated, on_side
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.parametric.statement import Condition

DOMAIN = Domain((Axis("x", -1.0, 3.0, "m"), Axis("t", 0.0, 0.5, "s"), Axis("k", 10.0, 11.0)))
SCHEMES = ("uniform", "latin_hypercube", "sobol")


SQUARE = Domain((Axis("x", -1.0, 1.0), Axis("y", -1.0, 1.0)))
RING = Domain(SQUARE.axes, lambda p: np.hypot(p[:, 0], p[:, 1]) > 0.5)


def _rng():
    return np.random.default_rng(0)


def cube_of(points):
    low, high = DOMAIN.bounds
    return (points - low) / (high - low)


def test_a_domain_knows_its_axes_bounds_and_points():
    assert DOMAIN.names == ("x", "t", "k")
    np.testing.assert_array_equal(DOMAIN.bounds, [[-1, 0, 10], [3, 0.5, 11]])
    inside = DOMAIN.contains([[0, 0.2, 10.5], [-1, 0.5, 11], [3.1, 0.2, 10.5], [0, -0.1, 10.5], [0, math.nan, 10.5]])
    assert inside.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Axis("x", 1.0, 1.0), "axis x runs from 1.0 to 1.0: give finite bounds, the lower first"),
        (lambda: Axis("x", 0.0, math.inf), "runs from 0.0 to inf"),
        (lambda: Axis("x", math.nan, 1.0), "runs from nan"),
        (lambda: Axis("", 0.0, 1.0), "named ''"),
        (lambda: Domain(()), "give at least one"),
        (lambda: Domain((Axis("x", 0, 1), Axis("x", 0, 2))), "each its own name"),
        (lambda: DOMAIN.contains([[1.0, 2.0]]), r"shape \(1, 2\): give \(n, 3\)"),
        (lambda: collocate(DOMAIN, 0, "sobol", np.random.default_rng(0)), "0 collocation points are asked for"),
        (
            lambda: collocate(DOMAIN, 4, "sobel", np.random.default_rng(0)),
            "No collocation scheme 'sobel': choose uniform",
        ),
        (lambda: Domain(SQUARE.axes, lambda p: p[:, 0]).contains([[0.0, 0.0]]), r"type float64 for 1 points: it must"),
        (lambda: Domain(SQUARE.axes, lambda p: p > 0).contains([[0.0, 0.0]]), r"shape \(1, 2\) and type bool for 1"),
        (
            lambda: collocate(Domain(SQUARE.axes, lambda p: p[:, 0] > 2), 4, "sobol", np.random.default_rng(0)),
            "mask left 0 of 4096 points of its box",
        ),
        (
            lambda: on_side(SQUARE, Condition("f", "z", "low"), 4, "sobol", np.random.default_rng(0)),
            "names the axis 'z': the domain has the axes x, y",
        ),
        (
            lambda: on_side(
                Domain(SQUARE.axes, lambda p: p[:, 0] < 0.5), Condition("f", "x", "high"), 4, "sobol", _rng()
            ),
            "high end of 'x', where the domain's mask leaves nothing",
        ),
    ],
)
def test_nonsense_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n", [1, 2, 37, 64])
def test_collocation_points_lie_inside_and_come_again_from_the_same_seed(scheme, n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = collocate(DOMAIN, n, scheme, np.random.default_rng(8))
    assert points.shape == (n, 3)
    assert DOMAIN.contains(points).all()
    assert np.array_equal(points, collocate(DOMAIN, n, scheme, np.random.default_rng(8)))
    assert not np.array_equal(points, collocate(DOMAIN, n, scheme, np.random.default_rng(9)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_collocation_points_are_uniform_over_the_domain(scheme):
    cube = cube_of(collocate(DOMAIN, 1000, scheme, np.random.default_rng(1)))
    for column in cube.T:
        assert kstest(column, "uniform").pvalue > 1e-3


def test_a_latin_hypercube_has_one_point_in_each_slice_of_every_axis():
    cube = cube_of(collocate(DOMAIN, 50, "latin_hypercube", np.random.default_rng(2)))
    for column in cube.T:
        assert sorted(np.floor(column * 50).astype(int)) == list(range(50))


def test_sobol_points_fill_every_elementary_interval():
    cube = cube_of(collocate(DOMAIN, 64, "sobol", np.random.default_rng(3)))
    for column in cube.T:
        assert sorted(np.floor(column * 64).astype(int)) == list(range(64))
    pairs = {tuple(cell) for cell in np.floor(cube[:, :2] * 8).astype(int)}
    assert len(pairs) == 64


def test_sobol_points_are_spread_better_than_independent_ones():
    worst = {s: qmc.discrepancy(cube_of(collocate(DOMAIN, 256, s, np.random.default_rng(4)))) for s in SCHEMES}
    assert worst["sobol"] < worst["latin_hypercube"] < worst["uniform"]


def test_fewer_sobol_points_are_the_first_of_more():
    more = collocate(DOMAIN, 64, "sobol", np.random.default_rng(5))
    assert np.array_equal(collocate(DOMAIN, 37, "sobol", np.random.default_rng(5)), more[:37])


def test_a_mask_is_a_part_of_the_box():
    assert RING.contains([[0.9, 0.9], [0.1, 0.1], [0.0, 0.6], [0.0, 1.1]]).tolist() == [True, False, True, False]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_collocation_points_of_a_mask_are_uniform_over_what_it_leaves(scheme):
    points = collocate(RING, 1000, scheme, np.random.default_rng(1))
    assert points.shape == (1000, 2) and RING.contains(points).all()
    assert np.array_equal(points, collocate(RING, 1000, scheme, np.random.default_rng(1)))
    share = np.mean(np.hypot(*points.T) < 0.8)
    expected = math.pi * (0.64 - 0.25) / (4 - math.pi * 0.25)
    assert share == pytest.approx(expected, abs=3 * math.sqrt(expected * (1 - expected) / 1000))


@pytest.mark.parametrize(
    ("axis", "end", "at"), [("x", "low", (0, -1.0)), ("x", "high", (0, 1.0)), ("y", "high", (1, 1.0))]
)
def test_points_of_a_side_lie_on_it_and_in_the_domain(axis, end, at):
    column, place = at
    upper = Domain(SQUARE.axes, lambda p: p[:, 0] + p[:, 1] > -1.0)
    for domain, count in ((SQUARE, 64), (upper, 32 if end == "low" else 64)):
        points = on_side(domain, Condition("f", axis, end), 64, "sobol", np.random.default_rng(2))
        assert points.shape == (count, 2)
        assert np.all(points[:, column] == place) and domain.contains(points).all()
        assert len(np.unique(points[:, 1 - column])) == count


def test_the_end_of_an_interval_is_one_point():
    line = Domain((Axis("x", 2.0, 3.0),))
    assert on_side(line, Condition("f", "x", "high"), 5, "sobol", _rng()).tolist() == [[3.0]]


def test_each_side_has_points_of_its_own_address_and_twice_as_dense_as_the_domain():
    conditions = (Condition("f", "x", "low"), Condition("f", "y", "high"))
    asked = []

    def stream(slot):
        asked.append(slot)
        return np.random.default_rng(slot)

    found = collocated(SQUARE, conditions, 100, "uniform", stream)
    assert sorted(asked) == [0, 1, 2]
    assert np.array_equal(found.inside, collocate(SQUARE, 100, "uniform", np.random.default_rng(0)))
    for k, (condition, side) in enumerate(zip(conditions, found.sides, strict=True), start=1):
        assert np.array_equal(side, on_side(SQUARE, condition, 20, "uniform", np.random.default_rng(k)))


def test_a_mask_that_writes_into_the_points_is_refused_and_moves_none():
    points = np.array([[0.2], [0.8]])

    def mask(points):
        points *= 0
        return points[:, 0] < 1

    with pytest.raises(ValueError, match="read-only"):
        Domain((Axis("x", 0.0, 1.0),), mask).contains(points)
    assert points.tolist() == [[0.2], [0.8]]
