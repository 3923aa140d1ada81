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


def test_parameter_gradient_of_the_operator_equals_a_finite_difference_of_the_operator():
    network = Network(2, width=5, depth=3)
    theta, X = weights(network), points(3)
    forms = torch.tensor([[[[1.0, 0.3], [0.3, 0.5]]]], dtype=torch.float64)

    def image(at):
        out = network.streams(at, X, forms)
        return out.second[..., 0] + 0.7 * out.gradient[..., 1] - 1.3 * out.value

    streams, passed = network.propagated(theta.clone().requires_grad_(), X, forms)
    omega = network.jacobian(passed, streams.second[..., 0] + 0.7 * streams.gradient[..., 1] - 1.3 * streams.value)
    step = 1e-5
    for j in range(network.size):
        shift = torch.zeros(network.size, dtype=torch.float64)
        shift[j] = step
        difference = (image(theta + shift) - image(theta - shift)) / (2 * step)
        torch.testing.assert_close(omega[..., j], difference, rtol=1e-6, atol=1e-7)


def test_initial_outputs_keep_their_size_at_any_width_and_depth():
    X = points(20)
    for width, depth in [(20, 1), (200, 2), (50, 5)]:
        network = Network(2, width, depth)
        values = network.value(network.initial(300, torch.Generator().manual_seed(2)), X)
        assert 0.15 < float(values.std()) < 1.0


def test_a_network_does_not_depend_on_how_many_are_drawn_with_it():
    network = Network(2, 4, 2)
    assert torch.equal(weights(network, 3)[:2], weights(network, 2))


@pytest.mark.parametrize("activation", ["tanh", "sine"])
@pytest.mark.parametrize("changing", [False, True])
def test_the_faster_pass_has_the_values_and_the_gradient_of_the_plain_one(activation, changing):
    network, X = Network(2, width=5, depth=3, activation=activation, frequency=1.4), points(4)
    forms = torch.randn(2, 4 if changing else 1, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = []
    for streams_of in (network.streams, lambda *given: network.propagated(*given)[0]):
        theta = weights(network).requires_grad_()
        out = streams_of(theta, X, forms)
        total = out.value.sin().sum() + out.gradient.square().sum() + out.second.tanh().sum()
        found.append((out.second.detach(), torch.autograd.grad(total, theta)[0]))
    for plain, faster in zip(*found, strict=True):
        torch.testing.assert_close(faster, plain, rtol=1e-12, atol=1e-12)
