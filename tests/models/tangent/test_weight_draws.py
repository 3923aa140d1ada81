"""Draws as directions: the posterior they come from, and their values along the way."""

import pytest
import torch

from fieldcraft.models.linear.conditioning import Factor, Primal
from fieldcraft.models.tangent.features import Perceptron, gram, project
from fieldcraft.models.tangent.weight_draws import Regression, in_blocks

NOISE = 0.05


@pytest.fixture(scope="module")
def setting():
    generator = torch.Generator().manual_seed(5)
    network = Perceptron(2, 20, 1, "tanh")
    theta = network.initial(generator)
    X, C = (2 * torch.rand(n, 2, generator=generator, dtype=torch.float64) - 1 for n in (6, 3))
    return network, theta, X, C, torch.sin(3 * X[:, 0]), generator


def test_draws_have_the_mean_and_covariance_of_the_posterior(setting):
    network, theta, X, C, y, generator = setting
    rows, others = network.passes(theta, X), network.passes(theta, C)
    model, q = Regression.of(rows, NOISE), 20_000
    start = torch.randn(q, network.size, generator=generator, dtype=torch.float64)
    eps = NOISE**0.5 * torch.randn(q, len(y), generator=generator, dtype=torch.float64)
    values = model.draws(y, start, eps) @ network.features(theta, C).T
    K, cross = gram(rows, rows), gram(rows, others)
    factor = Factor.of(K, NOISE)
    covariance = gram(others, others) - cross.T @ factor.solve(cross)
    spread = covariance.diagonal().sqrt()
    assert ((values.mean(0) - cross.T @ factor.solve(y)).abs() < 5 * spread / q**0.5).all()
    assert ((torch.cov(values.T) - covariance).abs() < 8 / q**0.5 * spread[:, None] * spread).all()
    assert torch.allclose(model.variance(others), covariance.diagonal(), rtol=1e-8)


def test_without_perturbed_targets_a_draw_minimises_the_ridge_loss_from_its_start(setting):
    network, theta, X, _, y, generator = setting
    start = torch.randn(1, network.size, generator=generator, dtype=torch.float64)
    (v,) = Regression.of(network.passes(theta, X), NOISE).draws(y, start, torch.zeros(1, len(y), dtype=torch.float64))
    Phi = network.features(theta, X)
    gradient = Phi.T @ (Phi @ v - y) + NOISE * (v - start[0])
    assert gradient.abs().max() < 1e-10


def test_the_smaller_side_is_taken_and_gives_the_same(setting):
    network, theta, *_, generator = setting
    small = Perceptron(2, 4, 1, "tanh")
    X = torch.rand(30, 2, generator=generator, dtype=torch.float64)
    y, weights = torch.cos(X[:, 0]), small.initial(generator)
    rows, others = small.passes(weights, X), small.passes(weights, X[:3] / 2)
    primal = Regression.of(rows, NOISE)
    dual = Regression(rows, Factor.of(gram(rows, rows), NOISE))
    assert isinstance(primal.side, Primal)
    assert isinstance(Regression.of(network.passes(theta, X), NOISE).side, Factor)
    assert torch.allclose(primal.variance(others), dual.variance(others), rtol=1e-8, atol=1e-12)
    assert torch.allclose(primal.direction(y), dual.direction(y), rtol=1e-8, atol=1e-9)


def test_blocks_change_neither_values_nor_gradients(setting):
    network, theta, *_, generator = setting
    v = torch.randn(network.size, generator=generator, dtype=torch.float64)
    X = torch.rand(11, 2, generator=generator, dtype=torch.float64).requires_grad_()
    sizes = []

    def counted(block):
        sizes.append(len(block))
        return project(network.passes(theta, block), v)

    values = in_blocks(counted, 4)(X)
    assert sizes == [4, 4, 3]
    uncut = project(network.passes(theta, X), v)
    assert torch.allclose(values, uncut, rtol=1e-12)
    (cut,) = torch.autograd.grad(values.sum(), X)
    (whole,) = torch.autograd.grad(uncut.sum(), X)
    assert torch.allclose(cut, whole, rtol=1e-10)
