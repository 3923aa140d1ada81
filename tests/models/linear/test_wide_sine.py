"""The kernel of infinitely many sines against its own definition, Monte Carlo, and finite differences."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.linear.wide_sine import WideProcess, WideSine
from fieldcraft.models.tangent.features import Perceptron, diagonal, gram

RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (12, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
SCALES = np.log([0.7, 1.5, 0.4])


def covariance(gain, output, noise):
    """The stated kernel, pair by pair."""

    def tangent(a, b):
        c, D = gain**2 * a @ b, gain**2 * (a - b) @ (a - b)
        C = 0.5 * (math.exp(-D / 2) + math.exp(-D / 2 - 2 * c))
        S = 0.5 * (math.exp(-D / 2) - math.exp(-D / 2 - 2 * c))
        return c * C + S

    rows = np.column_stack([X / np.exp(SCALES), np.ones(len(X))])
    k = np.array([[tangent(a, b) for b in rows] for a in rows])
    own = np.sqrt(k.diagonal())
    return output * k / own[:, None] / own + 1 + noise * np.eye(len(X))


@pytest.mark.parametrize("gain", [0.6, 1.0, 2.0])
def test_the_likelihood_is_the_normal_density_of_the_stated_kernel(gain):
    normal = torch.distributions.MultivariateNormal(
        torch.zeros(12, dtype=torch.float64), torch.tensor(covariance(gain, 1.3, 0.02))
    )
    found, _ = WideSine(X, Y, gain).log_likelihood(SCALES, math.log(1.3), math.log(0.02))
    assert found == pytest.approx(float(normal.log_prob(torch.tensor(Y))), rel=1e-10)


@pytest.mark.parametrize("gain", [0.6, 1.0, 2.0])
def test_its_slopes_are_those_of_finite_differences(gain):
    wide = WideSine(X, Y, gain)
    at = np.array([*SCALES, 0.3, -3.0])
    _, slope = wide.log_likelihood(at[:3], at[3], at[4])
    for i, step in enumerate(1e-5 * np.eye(5)):
        ends = [wide.log_likelihood(v[:3], v[3], v[4])[0] for v in (at + step, at - step)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7)


def test_the_correlations_are_the_mean_of_those_of_many_networks():
    network = Perceptron(3, 4096, 1, "sine", 2.0, 0.0)
    expected = covariance(1.0, 1.0, 0.0) - 1
    found = []
    for seed in range(40):
        theta = network.initial(torch.Generator().manual_seed(seed))
        rows = network.passes(theta, torch.tensor(X / np.exp(SCALES)))
        own = diagonal(rows).sqrt()
        found.append((gram(rows, rows) / own[:, None] / own).numpy())
    error = np.std(found, axis=0, ddof=1) / math.sqrt(40)
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - expected), 4.5 * error + 1e-3)


def test_points_that_are_one_without_noise_have_no_likelihood():
    wide = WideSine(np.vstack([X] * 4), np.tile(Y, 4), 1.0)
    value, slope = wide.log_likelihood(SCALES, 60.0, -60.0)
    assert value == -math.inf and not slope.any()


def test_far_points_do_not_overflow():
    value, slope = WideSine(1e3 * X, Y, 1.0).log_likelihood(SCALES, 0.0, -3.0)
    assert math.isfinite(value) and np.isfinite(slope).all()


def test_a_wide_process_is_regression_on_the_stated_kernel():
    scales = torch.tensor(np.exp(SCALES))
    trained, unseen = torch.tensor(X[:8]), torch.tensor(X[8:])
    process = WideProcess.of(0.6 * trained / scales, torch.tensor(Y[:8]), scales / 0.6, 0.6, (1.3, 1.0), 0.02)
    K = covariance(0.6, 1.3, 0.0)
    own, cross = K[:8, :8] + 0.02 * np.eye(8), K[:8, 8:]
    mean, variance = process.mean_var(unseen)
    np.testing.assert_allclose(mean, cross.T @ np.linalg.solve(own, Y[:8]), rtol=1e-9)
    expected = K[8:, 8:].diagonal() - (cross * np.linalg.solve(own, cross)).sum(0)
    np.testing.assert_allclose(variance, expected, rtol=1e-8)
