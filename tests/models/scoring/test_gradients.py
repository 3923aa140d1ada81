"""Scores of exact processes: gradients in closed form against automatic ones, and what a first look and a fit cost."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.pi import PI
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.gaussian import process
from fieldcraft.models.gaussian.exact_results import through_results
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Continuous, SearchSpace

D = 3
RNG = np.random.default_rng(31)
X = RNG.uniform(-1, 1, (30, D))
Y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
EXCESS = np.stack([X[:, 0] + X[:, 2] - 0.3, 0.2 - X[:, 1] ** 2], axis=1)
POINTS = torch.tensor(np.vstack([RNG.uniform(-1, 1, (12, D)), X[:2] + 0.004, X[2:3]]))
PENDING, CHOSEN = torch.tensor(RNG.uniform(-1, 1, (3, D))), torch.tensor(RNG.uniform(-1, 1, (2, D)))
NONE = torch.empty(0, D, dtype=torch.float64)
SPACE = SearchSpace(tuple(Continuous(f"x{i}", -1.0, 1.0) for i in range(D)))
KERNELS = ("matern12", "matern32", "matern52", "rbf")


def data(**changes):
    return Observations(**{"X": X, "y": Y, "maximize": False, "space": SPACE, **changes})


def algorithm(acquisition, constraints=None, kernel="matern52"):
    gp = ExactGP(kernel=kernel, restarts=0)
    return Algorithm(Sobol(), 4, gp, acquisition, Multistart(), constraints=constraints or Constraints())


def score_of(algorithm, observations, pending):
    posterior = algorithm.fit(observations, np.random.default_rng(0))
    if observations.exact:
        posterior = through_results(posterior, observations)
    rng = np.random.default_rng(1)
    if observations.constrained:
        return algorithm.constraints.score(algorithm.acquisition, posterior, observations, pending, 1, rng)
    return algorithm.acquisition.score(posterior, observations, pending, 1, rng)


def assert_its_gradient_is_the_automatic_one(score, points=POINTS):
    inputs = points.clone().requires_grad_()
    expected = score.value(inputs, 0, CHOSEN)
    (slopes,) = torch.autograd.grad(expected.sum(), inputs)
    values, gradients = score.value_and_grad(points, 0, CHOSEN)
    torch.testing.assert_close(values, expected.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients, slopes, rtol=1e-6, atol=1e-6)
    step = 1e-5
    for i, unit in enumerate(step * torch.eye(D, dtype=torch.float64)):
        up, down = (score.value(points[:8] + move, 0, CHOSEN) for move in (unit, -unit))
        torch.testing.assert_close(gradients[:8, i], ((up - down) / (2 * step)).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("pending", [NONE, PENDING], ids=("none", "pending"))
@pytest.mark.parametrize("acquisition", [LogEI(), PI(margin=0.1), UCB()])
def test_the_gradient_of_a_score_is_that_of_its_value(acquisition, pending, exact):
    assert_its_gradient_is_the_automatic_one(score_of(algorithm(acquisition), data(exact=exact), pending))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_gradient_is_right_for_every_kernel(kernel):
    assert_its_gradient_is_the_automatic_one(score_of(algorithm(LogEI(), kernel=kernel), data(), PENDING))


@pytest.mark.parametrize("failed", [np.empty((0, D)), RNG.uniform(-1, 1, (5, D))], ids=("none", "failed"))
@pytest.mark.parametrize("exact", [False, True])
def test_the_gradient_is_right_under_unknown_constraints(exact, failed):
    observations = data(constraints=EXCESS, failed=failed, exact=exact)
    rule = Constraints(ExactGP(restarts=0), Probability())
    assert_its_gradient_is_the_automatic_one(score_of(algorithm(LogEI(), rule), observations, PENDING))


def test_the_gradient_is_right_while_nothing_is_feasible():
    rule = Constraints(ExactGP(restarts=0), Probability())
    score = score_of(algorithm(LogEI(), rule), data(constraints=np.abs(EXCESS) + 3), PENDING)
    assert score.score is None
    assert_its_gradient_is_the_automatic_one(score)


def test_a_score_under_bounds_keeps_its_gradient():
    score = score_of(algorithm(UCB(), Constraints(ExactGP(restarts=0), Bound())), data(constraints=EXCESS), PENDING)
    assert_its_gradient_is_the_automatic_one(score)


def test_a_covariance_is_differentiable_in_both_points():
    A, B = POINTS[:4].clone().requires_grad_(), POINTS[5:8].clone().requires_grad_()
    scales = torch.tensor([0.4, 1.0, 2.0], dtype=torch.float64)
    for kernel in KERNELS:
        assert torch.autograd.gradcheck(lambda a, b, of=kernel: process.covariance(of, a, b, scales), (A, B))


def test_the_mean_alone_is_that_of_both_moments():
    for exact in (False, True):
        posterior = algorithm(LogEI()).fit(data(), np.random.default_rng(0))
        posterior = through_results(posterior, data()) if exact else posterior
        torch.testing.assert_close(posterior.mean(POINTS), posterior.mean_var(POINTS)[0], rtol=1e-12, atol=1e-12)


def test_a_fit_and_a_proposal_factor_the_covariance_once(monkeypatch):
    factored, plain = [], Factor.of
    monkeypatch.setattr(Factor, "of", lambda K, noise: factored.append(len(K)) or plain(K, noise))
    made = algorithm(LogEI())
    posterior = made.fit(data(), np.random.default_rng(0))
    made.propose(posterior, data(), PENDING, SPACE, 2, np.random.default_rng(1))
    assert factored == [len(X)]


def test_of_many_trials_the_first_look_takes_some_and_gradients_start_at_exact_values(monkeypatch):
    monkeypatch.setattr(process, "_COARSE", 20)
    made, looked = algorithm(LogEI()), []
    posterior = made.fit(data(), np.random.default_rng(0)).fantasize(PENDING)
    few = posterior.coarse
    assert 12 <= len(few.fit.X) <= 20
    assert {tuple(x) for x in PENDING.tolist()} <= {tuple(x) for x in few.fit.X.tolist()}
    assert int(posterior.fit.targets.argmin()) in [
        i for i, x in enumerate(posterior.fit.X.tolist()) if x in few.fit.X.tolist()
    ]
    again = replace(posterior, fit=few.fit, known_factor=None)
    torch.testing.assert_close(few.mean_var(POINTS), again.mean_var(POINTS), rtol=0, atol=0)
    plain = AnalyticScore.value
    monkeypatch.setattr(AnalyticScore, "value", lambda self, X, *at: looked.append(len(X)) or plain(self, X, *at))
    found = made.propose(posterior, data(), NONE, SPACE, 1, np.random.default_rng(1))
    assert max(looked) <= 16 + 3 + 16
    monkeypatch.setattr(process, "_COARSE", 1000)
    whole = made.propose(
        made.fit(data(), np.random.default_rng(0)).fantasize(PENDING), data(), NONE, SPACE, 1, np.random.default_rng(1)
    )
    assert found.value[0] == pytest.approx(whole.value[0], abs=1e-6)


def test_few_trials_are_all_looked_at():
    posterior = about_objective(algorithm(LogEI()).fit(data(), np.random.default_rng(0)))
    assert posterior.coarse is posterior
