"""Rows of networks and their derivatives, layer by layer, against automatic differentiation of the plain passes."""

import pytest
import torch

from fieldcraft.models.networks.layer_rows import Places
from fieldcraft.models.networks.perceptron import Network


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Dimension, forms, their points, equations, fields, results, collocation points, depth.
CASES = {
    "one operator": (2, 1, 1, 1, 1, 3, 4, 3),
    "coefficients that change": (2, 1, 4, 1, 1, 3, 4, 1),
    "a system": (1, 1, 1, 2, 2, 2, 5, 2),
    "more equations than fields": (2, 3, 1, 3, 2, 2, 3, 2),
    "no result": (2, 1, 1, 1, 1, 0, 4, 2),
    "no equation": (2, 0, 1, 0, 1, 5, 0, 2),
}


class Case:
    """k = 2 trainings and their rows, written with the differentiable passes."""

    def __init__(self, name, activation, diagonal=False):
        d, s, changing, self.E, self.F, self.n, self.r, depth = CASES[name]
        self.network = Network(d, 6, depth, activation, 1.4)
        self.theta = self.network.initial(2 * self.F, torch.Generator().manual_seed(1))
        self.X, self.Z = numbers(self.n, d, seed=2), numbers(self.r, d, seed=3)
        self.forms = numbers(s, changing, d, d, seed=4)
        if diagonal:
            self.forms = self.forms * torch.eye(d, dtype=torch.float64)
        self.places = Places.of(self.X, self.Z, self.forms)
        self.leaving = numbers(2 * self.F, self.n + self.E * self.places.count * self.r, seed=5)

    def rows(self, theta):
        each = theta.reshape(2 * self.F, -1)
        parts = [self.network.value(each, self.X) * self.leaving[:, : self.n]]
        if self.r:
            found = self.network.streams(each, self.Z, self.forms)
            streams = torch.cat([found.value[..., None], found.gradient, found.second], dim=-1).mT
            own = self.leaving[:, self.n :].reshape(2 * self.F, self.E, self.places.count, self.r)
            parts.append((own * streams[:, None]).sum(2).flatten(1))
        return torch.cat(parts, dim=1).reshape(2, self.F, -1).sum(1)

    @property
    def jacobian(self):
        weights = self.theta.reshape(2, -1)
        whole = torch.autograd.functional.jacobian(self.rows, weights)
        return torch.stack([whole[k, :, k] for k in range(2)])

    @property
    def derivatives(self):
        return self.places.forwards(self.network, self.theta).backwards(self.leaving, self.F)


@pytest.mark.parametrize("activation", ["tanh", "sine"])
@pytest.mark.parametrize("name", CASES)
def test_the_products_with_the_derivatives_are_those_of_the_written_jacobian(name, activation):
    case = Case(name, activation)
    J, found = case.jacobian, case.derivatives
    v, w = numbers(2, J.shape[2], seed=6), numbers(2, J.shape[1], seed=7)
    torch.testing.assert_close(found.gram(), J @ J.mT, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(found.along(v), (J @ v[..., None])[..., 0], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(found.combined(w), (w[:, None] @ J)[:, 0], rtol=1e-11, atol=1e-11)
    if case.E <= 1:
        torch.testing.assert_close(found.summed(), J.sum(1), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["one operator", "coefficients that change"])
def test_forms_without_mixed_derivatives_take_a_shorter_way_to_the_same_numbers(name):
    case = Case(name, "tanh", diagonal=True)
    assert case.places.diagonal is not None
    assert Case(name, "tanh").places.diagonal is None
    J = case.jacobian
    torch.testing.assert_close(case.derivatives.gram(), J @ J.mT, rtol=1e-11, atol=1e-11)


def test_the_streams_of_the_last_layer_are_the_networks_values_and_derivatives():
    case = Case("one operator", "sine")
    outputs = case.places.outputs(case.network, case.theta)
    assert torch.equal(outputs, case.places.forwards(case.network, case.theta).outputs)
    torch.testing.assert_close(outputs[:, :3], case.network.value(case.theta, case.X))
    found = case.network.streams(case.theta, case.Z, case.forms)
    streams = torch.cat([found.value[..., None], found.gradient, found.second], dim=-1).mT
    torch.testing.assert_close(outputs[:, 3:].reshape(2, 4, 4), streams)
