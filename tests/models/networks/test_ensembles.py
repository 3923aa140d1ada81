"""Networks trained on results, and what is made of them: ensemble, greedy, DNGO."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.linear.basis_evidence import Prior, choose_prior, log_evidence
from fieldcraft.models.networks.ensembles import MisfitLoss
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import LeaveOneOut, no_report
from fieldcraft.models.surrogates.deep_ensemble import DeepEnsemble
from fieldcraft.models.surrogates.dngo import DNGO
from fieldcraft.models.surrogates.neural_greedy import NeuralGreedy

RNG = np.random.default_rng(6)
X = RNG.uniform(-1, 1, (14, 2))
DATA = Observations(X=X, y=np.sin(3 * X[:, 0]) * X[:, 1] + RNG.normal(0, 0.05, 14), maximize=False)
Z = torch.tensor(RNG.uniform(-1, 1, (6, 2)))
SMALL = {"width": 16, "refinements": 40}


def fit(surrogate, data=DATA):
    return surrogate.fit(data, np.random.default_rng(3), None, no_report)


@pytest.mark.parametrize("activation", ["tanh", "sine"])
@pytest.mark.parametrize("depth", [1, 3])
def test_rows_their_derivatives_and_their_slope_equal_automatic_differentiation(activation, depth):
    network = Network(2, 5, depth, activation, 1.7)
    theta = network.initial(3, torch.Generator().manual_seed(0))
    targets = torch.tensor(DATA.targets)
    loss = MisfitLoss(network, torch.tensor(X), targets, theta, 0.1)
    rows, jacobian = loss.linearised(theta)
    torch.testing.assert_close(rows, network.value(theta, torch.tensor(X)) - targets)
    squares, half = loss.slope(theta)
    torch.testing.assert_close(squares, rows.square().sum(-1))
    torch.testing.assert_close(half, jacobian.combined(rows), rtol=0, atol=1e-12)
    unit = torch.eye(len(X), dtype=torch.float64).expand(3, -1, -1)
    written = torch.stack([jacobian.combined(unit[:, i]) for i in range(len(X))], dim=1)
    for i in range(3):
        exact = torch.func.jacrev(lambda t: network.value(t[None], torch.tensor(X))[0])(theta[i])
        torch.testing.assert_close(written[i], exact, rtol=0, atol=1e-10)


def test_each_network_of_an_ensemble_is_at_a_minimum_of_its_own_loss():
    surrogate = DeepEnsemble(networks=3, noise=0.1, **{**SMALL, "refinements": 300})
    state = fit(surrogate).state()
    network = Network(2, 16, 2, "sine", 2.0)
    theta = state["theta"].clone().requires_grad_()
    ridge = 0.1**2 * (theta - state["anchor"]).square().sum()
    loss = (network.value(theta, torch.tensor(X)) - torch.tensor(DATA.targets)).square().sum() + ridge
    (gradient,) = torch.autograd.grad(loss, theta)
    assert float(gradient.abs().max()) < 1e-3
    assert float(state["misfit"]) < 0.2


def test_an_ensemble_is_surer_where_it_has_readings():
    posterior = fit(DeepEnsemble(networks=6, **SMALL))
    inside = posterior.mean_var(torch.tensor(X))[1].mean()
    outside = posterior.mean_var(torch.tensor(X) + 4.0)[1].mean()
    assert inside < 0.05
    assert outside > 10 * inside


def test_a_greedy_network_is_certain_of_its_own_value():
    posterior = fit(NeuralGreedy(**SMALL))
    mean, variance = posterior.mean_var(Z)
    assert torch.equal(variance, torch.zeros(6, dtype=torch.float64))
    torch.testing.assert_close(posterior.draw(1, np.random.default_rng(0))[0](Z), mean)
    assert posterior.metrics["misfit"] < 0.2


@pytest.fixture(scope="module", params=[None, 0.1])
def dngo(request):
    data = Observations(X=X, y=DATA.y, maximize=False, noise_sd=request.param)
    return data, fit(DNGO(width=8, depth=2, refinements=40), data)


def explicit_rows(state, points):
    """Last hidden layer and the constant one, from the weights."""
    network = Network(2, 8, 2, "tanh", 2.0)
    a = torch.cat([points, torch.ones(len(points), 1)], dim=1)
    for weights in network.layers(state["theta"])[:-1]:
        a = torch.tanh(a @ weights[0])
    return torch.cat([a, torch.ones(len(points), 1)], dim=1)


def test_dngo_equals_bayesian_linear_regression_on_its_last_layer(dngo):
    data, posterior = dngo
    state, targets = posterior.state(), torch.tensor(data.targets)
    alpha, beta = posterior.metrics["scale"] ** -2, posterior.metrics["noise_sd"] ** -2
    rows, new = explicit_rows(state, torch.tensor(X)), explicit_rows(state, Z)
    covariance = torch.linalg.inv(alpha * torch.eye(9) + beta * rows.mT @ rows)
    mean, variance = posterior.mean_var(Z)
    torch.testing.assert_close(mean, new @ (beta * covariance @ rows.mT @ targets), rtol=0, atol=1e-7)
    torch.testing.assert_close(variance, (new @ covariance @ new.mT).diagonal(), rtol=0, atol=1e-7)
    assert not isinstance(posterior, LeaveOneOut)


def test_dngo_has_the_scale_and_noise_of_largest_evidence(dngo):
    data, posterior = dngo
    rows = explicit_rows(posterior.state(), torch.tensor(X)).numpy()
    best = math.log(posterior.metrics["scale"]), 2 * math.log(posterior.metrics["noise_sd"])

    def evidence(scale, noise):
        return log_evidence(rows, np.zeros(9), data.targets, Prior(scale, 0.0, noise))[0]

    assert evidence(*best) == pytest.approx(posterior.metrics["log_evidence"], abs=1e-6)
    assert all(evidence(best[0] + step, best[1]) < evidence(*best) for step in (-0.2, 0.2))
    if data.noise_sd is None:
        assert all(evidence(best[0], best[1] + step) < evidence(*best) for step in (-0.2, 0.2))
    else:
        assert posterior.metrics["noise_sd"] == pytest.approx(0.1 / data.scaling.sd, rel=1e-9)


@pytest.mark.parametrize(
    ("surrogate", "options", "problem"),
    [
        (DeepEnsemble, {"networks": 1}, "networks is 1: an ensemble has at least 2"),
        (NeuralGreedy, {"width": 0}, "width is 0: give 1 or more"),
        (NeuralGreedy, {"noise": 0.0}, "noise is 0.0: give a positive number"),
        (DNGO, {"memory_gb": 0.0}, "memory_gb is 0.0: give a positive number"),
        (DNGO, {"refinements": 0}, "steps is 0 and refinements is 0: give numbers >= 0, not both 0"),
    ],
)
def test_an_option_out_of_range_is_refused(surrogate, options, problem):
    with pytest.raises(ValueError, match=problem):
        surrogate(**options)


@pytest.mark.parametrize("surrogate", [DeepEnsemble, NeuralGreedy, DNGO])
def test_a_training_that_would_not_fit_the_memory_is_refused(surrogate):
    many = Observations(X=RNG.uniform(-1, 1, (20_000, 2)), y=np.zeros(20_000), maximize=False)
    with pytest.raises(ValueError, match=r"weights on 20000 trials needs about .* GB and memory_gb is 4: raise memory"):
        fit(surrogate(), many)
    narrow = surrogate(memory_gb=1e-3, width=4)
    with pytest.raises(ValueError, match=r"on 14 trials needs about .* GB and memory_gb is 1e-06: raise memory_gb, or"):
        fit(surrogate(memory_gb=1e-6), DATA)
    assert fit(narrow).metrics["restarts"] == 0


def test_one_start_of_the_search_serves_where_no_degree_tells_functions_apart():
    rows, y = RNG.normal(size=(14, 5)), RNG.normal(size=14)
    whole = choose_prior(rows, np.zeros(5), y, None)
    short = choose_prior(rows, np.zeros(5), y, None, decays=(0.0,))
    assert short[1] == pytest.approx(whole[1], abs=1e-5)
    assert short[0].log_decay == 0.0
