"""The random walk on its own: a space samples by it only where rejection fails."""

import numpy as np
import pytest
from scipy import stats

from physics.polytope import EmptyPolytopeError, Polytope

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


def test_an_empty_slice_is_told_apart_from_a_far_one():
    np.testing.assert_allclose(SEGMENT.project(np.array([1.0]), FREE), [0.5])
    with pytest.raises(EmptyPolytopeError, match="No point differs in the free coordinates only"):
        SEGMENT.project(np.array([1.0]), ~FREE)
