"""Domains and the collocation points in them."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import kstest, qmc

from fieldcraft.physics.collocation import collocate
from fieldcraft.physics.domain import Axis, Domain

DOMAIN = Domain((Axis("x", -1.0, 3.0, "m"), Axis("t", 0.0, 0.5, "s"), Axis("k", 10.0, 11.0)))
SCHEMES = ("uniform", "latin_hypercube", "sobol")


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
