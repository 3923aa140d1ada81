import pytest
import torch

from fieldcraft.models.networks.perceptron import Network


def points(n: int, d: int = 2) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2 - 1


def weights(network: Network, k: int = 2) -> torch.Tensor:
    return network.initial(k, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("activation", ["tanh", "sine"])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_hand_propagated_derivatives_equal_those_of_automatic_differentiation(activation, dimension):
    network = Network(dimension, width=7, depth=3, activation=activation, frequency=1.7)
    theta, X = weights(network), points(5, dimension)
    value, gradient, hessian = network.hessian(theta, X)
    for k in range(2):

        def h(x, row=theta[k : k + 1]):
            return network.value(row, x[None])[0, 0]

        for i, x in enumerate(X):
            torch.testing.assert_close(value[k, i], h(x), rtol=0, atol=1e-12)
            torch.testing.assert_close(gradient[k, i], torch.func.grad(h)(x), rtol=0, atol=1e-10)
            torch.testing.assert_close(hessian[k, i], torch.func.hessian(h)(x), rtol=0, atol=1e-10)


def test_one_second_order_stream_serves_coefficients_that_change_from_point_to_point():
    network = Network(2, width=6, depth=2)
    theta, X = weights(network), points(4)
    forms = torch.randn(1, 4, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected = (forms[0] * network.hessian(theta, X)[2]).sum((-1, -2))
    torch.testing.assert_close(network.streams(theta, X, forms).second[..., 0], expected, rtol=0, atol=1e-12)


def test_initial_outputs_keep_their_size_at_any_width_and_depth():
    X = points(20)
    for width, depth in [(20, 1), (200, 2), (50, 5)]:
        network = Network(2, width, depth)
        values = network.value(network.initial(300, torch.Generator().manual_seed(2)), X)
        assert 0.15 < float(values.std()) < 1.0


def test_a_network_does_not_depend_on_how_many_are_drawn_with_it():
    network = Network(2, 4, 2)
    assert torch.equal(weights(network, 3)[:2], weights(network, 2))


def test_the_last_hidden_layer_gives_the_value_by_the_last_weights():
    network, X = Network(2, width=5, depth=3, activation="sine"), points(4)
    theta = weights(network)
    value = network.hidden(theta, X) @ theta[:, -5:, None] / 5**0.5
    torch.testing.assert_close(value[..., 0], network.value(theta, X))
