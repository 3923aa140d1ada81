"""The layerwise tangent algebra against explicit p-vectors from automatic differentiation."""

import itertools

import pytest
import torch

from fieldcraft.models.tangent.convolution import Convolution
from fieldcraft.models.tangent.features import (
    Activation,
    Perceptron,
    TangentFeatures,
    combine,
    diagonal,
    explicit,
    fixed,
    gram,
    project,
    scaled,
)

SHAPES: list[TangentFeatures] = [
    *(
        Perceptron(3, 6, depth, activation, w_std=1.3, b_std=bias)
        for activation, depth, bias in itertools.product(("relu", "tanh", "erf", "sine"), (1, 2, 3), (0.0, 0.4))
    ),
    Convolution(14, 1, (3, 4), channels=3, width=5),
    Convolution(14, 0, (2, 2), channels=3, width=5, activation="tanh", w_std=1.4),
]


def uniform(n, d, generator):
    return 2 * torch.rand(n, d, generator=generator, dtype=torch.float64) - 1


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def by_autograd(network, theta, X):
    """dh(x_i)/dtheta, one row a point."""
    return torch.stack(
        [torch.autograd.functional.jacobian(lambda t, x=x: network.value(t, x[None])[0], theta) for x in X]
    )


def close(found, expected):
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, rtol=1e-8, atol=1e-8 * float(expected.abs().max()))


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("network", SHAPES, ids=str)
def test_every_product_equals_the_one_of_explicit_rows(network, pair, generator):
    theta = normal(network.size * (2 if pair else 1), generator=generator)
    X, Z = uniform(5, network.inputs, generator), uniform(4, network.inputs, generator)
    J, JZ = by_autograd(network, theta, X), by_autograd(network, theta, Z)
    rows, others = network.passes(theta, X), network.passes(theta, Z)
    v, w = normal(3, len(theta), generator=generator), normal(5, 2, generator=generator)
    close(network.features(theta, X), J)
    close(gram(rows, others), J @ JZ.T)
    close(diagonal(rows), J.square().sum(1))
    close(project(rows, v[0]), J @ v[0])
    close(project(rows, v), v @ J.T)
    close(combine(rows, w[:, 0]), J.T @ w[:, 0])
    close(combine(rows, w), J.T @ w)


@pytest.mark.parametrize("network", [Perceptron(3, 6, 2, "tanh", b_std=0.3), SHAPES[-1]], ids=str)
def test_networks_carried_together_equal_each_alone(network, generator):
    theta = normal(3, network.size, generator=generator)
    X, w = uniform(5, network.inputs, generator), normal(3, 5, generator=generator)
    v = normal(3, network.size, generator=generator)
    rows = network.passes(theta, X)
    for k, alone in enumerate(theta):
        single = network.passes(alone, X)
        close(network.value(theta, X)[k], network.value(alone, X))
        close(gram(rows, rows)[k], gram(single, single))
        close(diagonal(rows)[k], diagonal(single))
        close(combine(rows, w)[k], combine(single, w[k]))
        close(project(rows, v)[k], project(single, v[k]))


@pytest.mark.parametrize("activation", ["tanh", "erf", "sine"])
def test_gram_and_slope_have_the_right_gradient_by_the_points(activation: Activation, generator):
    network = Perceptron(2, 5, 2, activation, b_std=0.2)
    theta, v = network.initial(generator), normal(network.size, generator=generator)
    X, Z = uniform(3, 2, generator).requires_grad_(), uniform(2, 2, generator)

    def outputs(points):
        rows = network.passes(theta, points)
        return gram(rows, network.passes(theta, Z)), diagonal(rows), project(rows, v)

    assert torch.autograd.gradcheck(outputs, X)


def test_rows_without_their_graph_give_half_the_gradient_of_a_symmetric_sum(generator):
    network = Perceptron(2, 5, 2, "tanh", b_std=0.2)
    theta, X, W = (
        network.initial(generator),
        uniform(4, 2, generator).requires_grad_(),
        normal(4, 4, generator=generator),
    )
    rows, W = network.passes(theta, X), W + W.T
    (whole,) = torch.autograd.grad((W * gram(rows, rows)).sum(), X, retain_graph=True)
    (half,) = torch.autograd.grad((W * gram(rows, fixed(rows))).sum(), X)
    close(2 * half, whole)


def test_rows_times_numbers_give_the_normalised_kernel(generator):
    network = Perceptron(2, 5, 2, "relu")
    theta, X = network.initial(generator), uniform(4, 2, generator)
    rows = network.passes(theta, X)
    J = by_autograd(network, theta, X)
    unit = J / J.norm(dim=1, keepdim=True)
    close(explicit(scaled(rows, diagonal(rows).rsqrt())), unit)


@pytest.mark.parametrize("network", [Perceptron(3, 6, 2, "relu", b_std=0.3), SHAPES[-1]], ids=str)
def test_the_antisymmetric_pair_starts_at_zero_with_the_kernel_of_one_network(network, generator):
    theta = network.initial(generator, "antisymmetric")
    X = uniform(5, network.inputs, generator)
    pair, single = network.passes(theta, X), network.passes(theta[: network.size], X)
    assert torch.equal(network.value(theta, X), torch.zeros(5, dtype=torch.float64))
    close(gram(pair, pair), gram(single, single))
    moved = theta + 0.1 * normal(len(theta), generator=generator)
    assert network.value(moved, X).abs().min() > 1e-6


def test_a_zero_last_layer_leaves_the_features_of_the_last_layer_only(generator):
    network = Perceptron(3, 6, 2, "tanh", b_std=0.3)
    theta, X = network.initial(generator, "zero_last_layer"), uniform(5, 3, generator)
    features = network.features(theta, X)
    assert torch.equal(network.value(theta, X), torch.zeros(5, dtype=torch.float64))
    assert torch.equal(features[:, :-7], torch.zeros(5, network.size - 7, dtype=torch.float64))
    assert features[:, -7:].abs().min() > 1e-6


def test_features_vanish_nowhere_without_a_bias(generator):
    network = Perceptron(3, 50, 1, "relu")
    assert diagonal(network.passes(network.initial(generator), torch.zeros(1, 3, dtype=torch.float64))) > 0.01


def test_outputs_keep_their_size_at_any_depth(generator):
    X = uniform(1, 4, generator)
    for depth in (1, 4):
        network = Perceptron(4, 256, depth, "relu", w_std=2**0.5)
        values = torch.stack([network.value(network.initial(generator), X)[0] for _ in range(40)])
        assert 0.3 < values.std() < 3


def test_the_convolutional_network_is_the_one_of_its_formula(generator):
    network = Convolution(14, 1, (3, 4), channels=3, width=5, w_std=1.2)
    theta, X = network.initial(generator), uniform(2, 14, generator)
    first, second, last = torch.split(theta, network.sizes)
    kernel = first.reshape(3, 10) * 1.2 / 10**0.5
    weight, bias = kernel[:, :9].reshape(3, 1, 3, 3), kernel[:, 9]
    image = torch.relu(torch.nn.functional.conv2d(X[:, None, 1:13].reshape(2, 1, 3, 4), weight, bias, padding=1))
    dense = torch.cat([image.permute(0, 2, 3, 1).flatten(1), X[:, :1], X[:, 13:], torch.ones_like(X[:, :1])], dim=1)
    hidden = torch.relu(dense @ second.reshape(5, 39).T * 1.2 / 39**0.5)
    close(network.value(theta, X), hidden @ last * 1.2 / 5**0.5)


def test_weights_of_another_network_are_refused():
    network = Perceptron(2, 4)
    with pytest.raises(ValueError, match="15 weights do not fit a network of 16: give that many, or twice"):
        network.value(torch.zeros(15, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64))


def test_an_image_that_leaves_the_coordinates_is_refused():
    with pytest.raises(ValueError, match="image of 3 x 4 pixels from coordinate 3 leaves the 14 coordinates"):
        Convolution(14, 3, (3, 4))
