"""The members' posterior against the Gaussian that they span."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.networks.members import MembersPosterior
from fieldcraft.models.observations import Scaling

RNG = np.random.default_rng(5)
WEIGHTS = torch.tensor(RNG.normal(size=(6, 3)))
X, Z = torch.tensor(RNG.normal(size=(4, 3))), torch.tensor(RNG.normal(size=(9, 3)))


def posterior(divisor=5.0, **changes):
    parts = {"members": lambda X: WEIGHTS @ X.sin().mT, "transform": torch.eye(6, dtype=torch.float64)}
    rest = {"noise": 0.2, "scaling": Scaling(0.0, 1.0, 1.0), "metrics": {}, "kept": {}}
    return MembersPosterior(**{**parts, **rest, "divisor": divisor, **changes})


def test_mean_and_variance_are_those_over_the_members():
    values = WEIGHTS @ Z.sin().mT
    mean, variance = posterior().mean_var(Z)
    torch.testing.assert_close(mean, values.mean(0))
    torch.testing.assert_close(variance, values.var(0))


def test_the_variance_within_members_is_added():
    variance = posterior(within=lambda X: X[:, 0].square()).mean_var(Z)[1]
    torch.testing.assert_close(variance, posterior().mean_var(Z)[1] + Z[:, 0].square())


def test_believing_equals_conditioning_the_gaussian_of_the_same_covariance():
    covariance = torch.cov((WEIGHTS @ torch.cat([X, Z]).sin().mT).mT)
    gain = torch.linalg.solve(covariance[:4, :4] + 0.2 * torch.eye(4), covariance[:4, 4:])
    expected = covariance[4:, 4:] - covariance[4:, :4] @ gain
    at_once = posterior().fantasize(X)
    in_turn = posterior().fantasize(X[:1]).fantasize(X[1:])
    for believed in (at_once, in_turn):
        mean, variance = believed.mean_var(Z)
        torch.testing.assert_close(mean, posterior().mean_var(Z)[0])
        torch.testing.assert_close(variance, expected.diagonal())
    draws = torch.stack([f(Z) for f in at_once.draw(6, np.random.default_rng(0))])
    torch.testing.assert_close(torch.cov(draws.mT), expected)
    torch.testing.assert_close(draws.mean(0), posterior().mean_var(Z)[0])


def test_draws_are_different_members_in_an_order_of_chance():
    values = WEIGHTS @ Z.sin().mT
    orders = []
    for seed in range(3):
        draws = [f(Z) for f in posterior().draw(6, np.random.default_rng(seed))]
        orders.append([int(torch.isclose(values, draw).all(1).nonzero()[0]) for draw in draws])
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert orders[0] != orders[1]


def test_more_draws_than_members_are_refused():
    with pytest.raises(ValueError, match="7 draws were asked of 6 members: raise the surrogate's number"):
        posterior().draw(7, np.random.default_rng(0))


def test_a_point_estimate_has_no_variance_and_nothing_to_believe():
    certain = posterior(divisor=math.inf)
    assert torch.equal(certain.mean_var(Z)[1], torch.zeros(9, dtype=torch.float64))
    assert certain.fantasize(X) is certain
