"""Uncertainty sampling against a greedy search that inverts the whole matrix at every step."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.proposers.uncertainty import Uncertainty
from fieldcraft.models.tangent.features import Perceptron
from fieldcraft.physics.space import Continuous, SearchSpace

SPACE = SearchSpace((Continuous("x", 0.0, 2.0), Continuous("y", -1.0, 1.0)))
SMALL = {"width": 24, "candidates": 100}


def propose(q, start=0, **options):
    return Uncertainty(**{**SMALL, **options}).propose(SPACE, start, q, np.random.default_rng(9))


def explicit_kernel(rng, normalised):
    """The network's kernel from explicit gradients."""
    network = Perceptron(2, 24, 2, "relu", w_std=math.sqrt(2))
    theta = network.initial(torch_generator(rng))

    def kernel(A, B):
        a, b = (network.features(theta, torch.tensor(points)) for points in (A, B))
        if normalised:
            a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        return (a @ b.mT).numpy()

    return kernel


@pytest.mark.parametrize("normalised", [True, False])
def test_each_point_is_the_most_uncertain_of_its_pool_given_all_before_it(normalised):
    rng = np.random.default_rng(9)
    kernel = explicit_kernel(rng, normalised)
    pools = sobol_points(SPACE, rng)
    X = np.empty((0, 2))
    for number in range(70):
        if number % 64 == 0:
            pool = take(pools, 100)
        variance = kernel(pool, pool).diagonal()
        noise = 1e-4 * variance.max()
        explained = kernel(pool, X) @ np.linalg.solve(kernel(X, X) + noise * np.eye(len(X)), kernel(X, pool))
        left = variance - explained.diagonal()
        X = np.vstack([X, pool[np.argmax(left >= left.max() - 1e-9)]])
    np.testing.assert_array_equal(propose(70, normalised=normalised), X)


def test_the_points_are_spread_better_than_a_random_sample():
    probes = np.random.default_rng(0).uniform(-1, 1, (2000, 2))

    def farthest(X):
        return float(np.linalg.norm(probes[:, None] - X[None], axis=2).min(axis=1).max())

    random = [farthest(np.random.default_rng(seed).uniform(-1, 1, (16, 2))) for seed in range(20)]
    assert farthest(propose(16)) < np.median(random)


@pytest.mark.parametrize(("option", "least"), [("width", 1), ("depth", 1), ("candidates", 64)])
def test_a_number_below_its_least_is_refused(option, least):
    with pytest.raises(ValueError, match=f"{option} is {least - 1}: give {least} or more"):
        Uncertainty(**{option: least - 1})


def test_dead_neurons_leave_numbers():
    dead = propose(3, width=1, depth=1)
    assert np.isfinite(dead).all()
    assert len(np.unique(dead, axis=0)) == 3
