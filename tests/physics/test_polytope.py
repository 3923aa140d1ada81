"""The random walk on its own: a space samples by it only where rejection fails."""

import numpy as np
import pytest
from scipy import stats

from fieldcraft.physics.geometry.polytope import EmptyPolytopeError, Polytope

FREE = np.array([True])
SEGMENT = Polytope(np.array([[1.0]]), np.array([0.5]), np.array([-1.0]), np.array([1.0]), tolerance=1e-9)


def test_the_walk_is_uniform_over_a_segment_from_its_very_end():
    X = SEGMENT.walk(np.full((4000, 1), -1.0), FREE, np.random.default_rng(0))
    assert stats.kstest(X[:, 0], stats.uniform(-1, 1.5).cdf).pvalue > 1e-3


def test_the_walk_leaves_the_coordinates_that_are_not_free():
    square = Polytope(np.array([[0.6, 0.8]]), np.array([0.2]), -np.ones(2), np.ones(2), tolerance=1e-9)
    start = np.array([[-1.0, 0.5], [-1.0, -0.5], [-1.0, 0.5]])
    X = square.walk(start, np.array([True, False]), np.random.default_rng(1))
    np.testing.assert_array_equal(X[:, 1], start[:, 1])
    assert square.contains(X).all()
    assert len(np.unique(X[:, 0])) == 3


def test_the_walk_stays_on_a_plane_and_is_uniform_there_from_a_vertex():
    # The triangle with vertices (1, -1, -1), (-1, 1, -1) and (-1, -1, 1).
    plane = {"E": np.full((1, 3), 3**-0.5), "e": np.array([-(3**-0.5)])}
    triangle = Polytope(np.empty((0, 3)), np.empty(0), -np.ones(3), np.ones(3), tolerance=1e-9, **plane)
    start = np.tile([1.0, -1.0, -1.0], (4000, 1))
    X = triangle.walk(start, np.ones(3, dtype=bool), np.random.default_rng(2))
    assert triangle.contains(X).all() and np.abs(X.sum(axis=1) + 1).max() < 1e-13
    for column in X.T:
        assert stats.kstest((column + 1) / 2, stats.beta(1, 2).cdf).pvalue > 1e-3


def test_the_walk_is_uniform_over_a_needle():
    # |x - y| <= 1e-4: along the diagonal, and across it.
    rows = np.array([[1.0, -1.0], [-1.0, 1.0]]) / 2**0.5
    needle = Polytope(rows, np.full(2, 1e-4), -np.ones(2), np.ones(2), tolerance=1e-9)
    X = needle.walk(np.zeros((4000, 2)), np.ones(2, dtype=bool), np.random.default_rng(3))
    assert stats.kstest(X.mean(axis=1), stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(X @ rows[0], stats.uniform(-1e-4, 2e-4).cdf).pvalue > 1e-3


def test_an_empty_slice_is_told_apart_from_a_far_one():
    np.testing.assert_allclose(SEGMENT.project(np.array([1.0]), FREE), [0.5])
    with pytest.raises(EmptyPolytopeError, match="No point differs in the free coordinates only"):
        SEGMENT.project(np.array([1.0]), ~FREE)
