"""Rows of a linear operator of a network against finite differences and explicit derivatives."""

import pytest
import torch

from fieldcraft.models.linear.conditioning import interaction_information
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.tangent.features import combine, diagonal, explicit, gram, project
from fieldcraft.models.tangent.operators import Coefficients, operator_passes, value_passes

NETWORKS = [Network(2, 6, depth, activation, 1.5) for activation in ("tanh", "sine") for depth in (1, 2, 3)]


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(11)


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def operator(n, generator):
    second = normal(n, 2, 2, generator=generator)
    return Coefficients(normal(n, generator=generator), normal(n, 2, generator=generator), second + second.mT)


def by_jets(network, theta, points, coefficients):
    """N[h] from the network's value, gradient and Hessian."""
    value, gradient, hessian = network.hessian(theta[None], points)
    first = (coefficients.first * gradient[0]).sum(-1)
    return coefficients.zeroth * value[0] + first + (coefficients.second * hessian[0]).sum((-2, -1))


def joint_gram(readings, equations):
    """Of results and equation rows together."""
    cross = gram(readings, equations)
    blocks = [[gram(readings, readings), cross], [cross.mT, gram(equations, equations)]]
    return torch.cat([torch.cat(row, dim=-1) for row in blocks], dim=-2)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_operator_rows_equal_finite_differences_of_the_operator(network, generator):
    theta, points = network.initial(1, generator)[0], normal(4, 2, generator=generator)
    coefficients = operator(4, generator)
    omega = explicit(operator_passes(network, theta, points, coefficients))
    step = 1e-5 * torch.eye(network.size, dtype=torch.float64)
    up, down = (by_jets(network, theta + sign * step[0], points, coefficients) for sign in (1, -1))
    for i in range(network.size):
        up, down = (by_jets(network, theta + sign * step[i], points, coefficients) for sign in (1, -1))
        assert torch.allclose(omega[:, i], (up - down) / 2e-5, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_products_of_operator_rows_equal_those_of_explicit_rows(network, generator):
    theta, points, Z = (
        network.initial(1, generator)[0],
        normal(4, 2, generator=generator),
        normal(3, 2, generator=generator),
    )
    coefficients = operator(4, generator)
    J = torch.func.jacrev(lambda t: by_jets(network, t, points, coefficients))(theta)
    readings = torch.func.jacrev(lambda t: network.value(t[None], Z)[0])(theta)
    omega, phi = operator_passes(network, theta, points, coefficients), value_passes(network, theta, Z)
    whole = torch.cat([readings, J])
    v, w = normal(network.size, generator=generator), normal(4, generator=generator)
    assert torch.allclose(joint_gram(phi, omega), whole @ whole.T, rtol=1e-8, atol=1e-10)
    assert torch.allclose(diagonal(omega), J.square().sum(1), rtol=1e-8)
    assert torch.allclose(project(omega, v), J @ v, rtol=1e-8, atol=1e-10)
    assert torch.allclose(combine(omega, w), J.T @ w, rtol=1e-8, atol=1e-10)


def test_wide_layers_are_multiplied_stream_by_stream_to_the_same_result(generator):
    network = Network(2, 64, 2)
    theta, points = network.initial(1, generator)[0], normal(3, 2, generator=generator)
    rows = operator_passes(network, theta, points, operator(3, generator))
    explicit_rows = explicit(rows)
    assert torch.allclose(gram(rows, rows), explicit_rows @ explicit_rows.T, rtol=1e-8)


def test_the_joint_gram_has_the_right_gradient_by_points_and_coefficients(generator):
    network = Network(2, 5, 2, "tanh")
    theta, points, Z = (
        network.initial(1, generator)[0],
        normal(2, 2, generator=generator),
        normal(2, 2, generator=generator),
    )
    N = operator(2, generator)

    def joint(points, zeroth, first, second):
        omega = operator_passes(network, theta, points, Coefficients(zeroth, first, second))
        return joint_gram(value_passes(network, theta, Z), omega)

    inputs = [each.requires_grad_() for each in (points, N.zeroth, N.first, N.second)]
    assert torch.autograd.gradcheck(joint, inputs)


def test_a_constant_second_order_part_is_given_once(generator):
    network = Network(2, 5, 2)
    theta, points = network.initial(2, generator), normal(3, 2, generator=generator)
    zero = torch.zeros(3, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64)
    identity = torch.eye(2, dtype=torch.float64)[None]
    once = operator_passes(network, theta, points, Coefficients(*zero, identity))
    each = operator_passes(network, theta, points, Coefficients(*zero, identity.expand(3, 2, 2)))
    assert torch.equal(gram(once, once), gram(each, each))
    alone = operator_passes(network, theta[1], points, Coefficients(*zero, identity))
    assert torch.allclose(gram(once, once)[1], gram(alone, alone), rtol=1e-10)


def test_the_joint_matrix_is_semidefinite_and_its_information_not_negative(generator):
    network = Network(2, 30, 2)
    theta, points, Z = (
        network.initial(1, generator)[0],
        normal(9, 2, generator=generator),
        normal(5, 2, generator=generator),
    )
    K = joint_gram(value_passes(network, theta, Z), operator_passes(network, theta, points, operator(9, generator)))
    eigenvalues = torch.linalg.eigvalsh(K)
    assert torch.equal(K, K.T) or torch.allclose(K, K.T, rtol=1e-12)
    assert eigenvalues[0] > -1e-10 * eigenvalues[-1]
    assert interaction_information(K[:5, :5], K[:5, 5:], K[5:, 5:], 0.01, 0.1) > 0
