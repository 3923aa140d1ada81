"""Neural-CBO (methods.md section 2): the network that starts at zero, its two trainings, and the theory's bounds."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.random_forest import RandomForest
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent.features import explicit, gram
from fieldcraft.models.tangent.mirrored import Mirrored

NET = Mirrored(inputs=2, width=6, depth=2)
NETS = (Mirrored(2, 40, 2), Mirrored(2, 41, 1), Mirrored(2, 30, 3))
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (9, 2))
DATA = Observations(X, np.sin(2 * X[:, 0]) + X[:, 1], maximize=False, constraints=np.cos(3 * X))
Z = torch.tensor(RNG.uniform(-1, 1, (5, 2)))
RAW = {"hyperparameters": "fixed", "normalised": False, "activation": "relu", "noise": 1.0, "init": "mirrored"}
PAPER = {**RAW, "width": 6, "depth": 2, "train": "one_pass", "rate": 0.05}


def rng(seed=0):
    return np.random.default_rng(seed)


def initial(net=NET, seed=0):
    return net.initial(torch.Generator().manual_seed(seed))


def fit(data=DATA, start=None, report=no_report, **options):
    return TangentNetwork(**{**PAPER, **options}).fit(data.objective, rng(), start, report)


def moved(net):
    return initial(net) + 0.3 * torch.randn(net.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("net", NETS)
def test_the_network_is_zero_before_training_and_not_after(net):
    assert net.value(initial(net), Z).abs().max() < 1e-15
    assert net.value(moved(net), Z).abs().min() > 1e-3


@pytest.mark.parametrize("net", NETS)
def test_its_rows_are_the_derivatives_by_every_weight(net):
    theta = moved(net)
    expected = torch.autograd.functional.jacobian(lambda t: net.value(t, Z), theta)
    torch.testing.assert_close(explicit(net.passes(theta, Z)), expected, rtol=0, atol=1e-14)
    assert (explicit(net.passes(initial(net), Z)) != 0).any(dim=1).all()


def test_the_halves_of_a_layer_begin_equal_and_apart():
    first, second = (part.reshape(6, -1) for part in initial().split(NET.sizes))
    assert torch.equal(first[:3], first[3:]) and torch.equal(second[:3, :3], second[3:, 3:])
    assert not second[:3, 3:].any() and not second[3:, :3].any()
    assert abs(float(Mirrored(40, 400).initial(torch.Generator().manual_seed(0))[:8000].std()) - 1) < 0.03


def sgd(theta, data, rate):
    """One pass over the trials by the paper's equations for two hidden layers, in numpy."""
    m = 6
    W1, W2 = theta[: 3 * m].reshape(m, 3).copy(), theta[3 * m :].reshape(m, m).copy()
    q = np.array([1, -1, 1, -1, 1, -1.0])
    for x, y in zip(data.X, data.targets, strict=True):
        x = np.append(x, 1.0)
        h1 = np.maximum(W1 @ x, 0) / math.sqrt(m)
        h2 = np.maximum(W2 @ h1, 0) / math.sqrt(m)
        back2 = q * (W2 @ h1 > 0) / math.sqrt(m)
        back1 = (W2.T @ back2) * (W1 @ x > 0) / math.sqrt(m)
        missed = y - q @ h2
        W1, W2 = W1 + rate * missed * np.outer(back1, x), W2 + rate * missed * np.outer(back2, h1)
    return np.concatenate([W1.ravel(), W2.ravel()])


def test_one_pass_is_one_step_of_gradient_descent_a_trial_in_their_order():
    state = fit().state()
    expected = sgd(state["start_theta"][0].numpy(), DATA, rate=0.05)
    np.testing.assert_allclose(state["theta"][0, :-1], expected, rtol=0, atol=1e-13)
    turned = Observations(X[::-1], DATA.y[::-1], maximize=False)
    assert np.abs(fit(turned).state()["theta"][0, :-1] - expected).max() > 1e-4


def test_one_pass_goes_on_from_a_checkpoint_to_the_same_bits():
    far = rng(7).uniform(-1, 1, (130, 2))
    many = Observations(far, far.sum(axis=1), maximize=False)
    kept = []
    whole = fit(many, report=lambda step, metrics, checkpoint: kept.append((step, checkpoint())))
    step, checkpoint = kept[0]
    assert step == 100 and int(checkpoint["counts"][0]) == 100
    assert kept[-1][0] == 130
    resumed = fit(many, start=checkpoint)
    for name, value in whole.state().items():
        assert torch.equal(resumed.state()[name], value), name
    restored = TangentNetwork(**PAPER).restore(many, whole.state())
    for a, b in zip(whole.mean_var(Z), restored.mean_var(Z), strict=True):
        assert torch.equal(a, b)


def test_full_training_follows_the_readings_where_one_pass_hardly_moves():
    once, full = fit(rate=1e-4), fit(train="full", noise=0.01, width=40)
    at = torch.tensor(X)
    assert once.mean_var(at)[0].abs().max() < 0.01
    assert (full.mean_var(at)[0] - torch.tensor(DATA.targets)).abs().max() < 0.3


def test_the_deviation_is_that_of_the_features_at_the_initial_weights():
    posterior = fit()
    theta = posterior.state()["start_theta"][0]
    g, seen = explicit(NET.passes(theta, Z)), explicit(NET.passes(theta, torch.tensor(X)))
    U = torch.eye(g.shape[1], dtype=torch.float64) + seen.T @ seen
    torch.testing.assert_close(posterior.mean_var(Z)[1], (g * torch.linalg.solve(U, g.T).T).sum(1))


def test_the_information_gain_is_half_a_log_determinant():
    tangent = fit()
    K = gram(tangent.process.regression.rows, tangent.process.regression.rows)
    assert tangent.information_gain() == pytest.approx(0.5 * float(torch.logdet(torch.eye(9) + K)), rel=1e-10)
    exact = ExactGP(restarts=0).fit(DATA.objective, rng(), None, no_report)
    K = exact.kernel(torch.tensor(X), torch.tensor(X)) / exact.noise_variance
    assert exact.information_gain() == pytest.approx(0.5 * float(torch.logdet(torch.eye(9) + K)), rel=1e-6)
    many = Observations(rng(2).uniform(-1, 1, (60, 2)), rng(3).normal(size=60), maximize=False)
    few = fit(many, width=2, depth=1)  # 6 weights: the primal side
    rows = explicit(few.process.regression.rows)
    assert few.information_gain() == pytest.approx(0.5 * float(torch.logdet(torch.eye(60) + rows @ rows.T)), rel=1e-8)


def algorithm(surrogate, **rule):
    rule = Bound(beta="gamma", **rule)
    maximizer = Multistart(n_samples=64, n_starts=2)
    return Algorithm(Sobol(), 1, surrogate, LogEI(), maximizer, constraints=Constraints(rule=rule))


def test_the_theorys_bound_is_as_wide_as_each_constraints_own_information_gain_makes_it():
    words = algorithm(TangentNetwork(**PAPER), norm=2.0, subgaussian=0.3, failure=0.05)
    posterior = words.fit(DATA, rng())
    gains = [own.information_gain() for own in posterior.constraints]
    expected = [2.0 + 0.3 * math.sqrt(gain + 2 + 2 * math.log(20)) for gain in gains]
    assert words.constraints.rule.widths(posterior, DATA) == pytest.approx(expected)
    assert gains[0] != gains[1]  # each network has weights of its own
    failed = Observations(X, DATA.y, maximize=False, constraints=DATA.constraints, failed=[[0.9, 0.9]])
    *_, hidden = words.constraints.rule.widths(words.fit(failed, rng()), failed)
    assert hidden == 2.0


def test_a_surrogate_that_does_not_know_its_information_gain_is_refused():
    words = algorithm(RandomForest())
    with pytest.raises(ValueError, match=r"beta is gamma, and a .* does not know its information gain: give a number"):
        words.propose(words.fit(DATA, rng()), DATA, np.empty((0, 2)), None, 1, rng())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "sine"}, "init is mirrored and activation is sine: the mirrored network has activation relu"),
        ({"hyperparameters": "fitted"}, "init is mirrored and hyperparameters is fitted.*init to antisymmetric"),
        ({"network": "convolution"}, "init is mirrored and network is convolution: the mirrored network is dense"),
        ({"steps": 5}, "train is one_pass and steps is 5: one pass makes one step a result; leave steps out"),
    ],
)
def test_options_that_do_not_fit_the_papers_network_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TangentNetwork(**{**PAPER, **options})


def test_a_rate_at_which_one_pass_diverges_is_refused():
    with pytest.raises(ValueError, match="One pass over 9 trials at the rate 1e\\+200 became non-finite: lower the"):
        fit(rate=1e200)


def test_another_initialisation_of_the_mirrored_network_is_refused():
    with pytest.raises(ValueError, match="init is 'gaussian': this network has its own, with equal halves"):
        NET.initial(torch.Generator(), "gaussian")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": -1.0}, r'beta is -1.0: give a finite number >= 0 .*"growing" or "gamma"'),
        ({"norm": 0.0}, "norm is 0.0: give a positive number"),
        ({"subgaussian": math.inf}, "subgaussian is inf: give a positive number"),
        ({"failure": 1.0}, "failure is 1.0: give a probability between 0 and 1"),
    ],
)
def test_numbers_that_make_no_bound_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Bound(**options)
