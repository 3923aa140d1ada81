"""Acquisitions against their definitions: quadrature, the bound itself, and the distribution of a draw's minimiser."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(2)
DATA = Observations(X=RNG.uniform(-1, 1, (8, 1)), y=RNG.normal(20.0, 3.0, 8), maximize=True, noise_sd=1.5)
POINTS = torch.linspace(-1, 1, 11, dtype=torch.float64).unsqueeze(-1)
NONE = torch.empty(0, 1, dtype=torch.float64)


@pytest.fixture(scope="module")
def posterior():
    return ExactGP(noise="known").fit(DATA, np.random.default_rng(1), None, no_report)


def improvement(mean, variance, incumbent):
    """E[max(incumbent - f, 0)] by quadrature."""
    sd = math.sqrt(variance)
    integrand = lambda f: (incumbent - f) * stats.norm.pdf(f, mean, sd)  # noqa: E731
    low = min(mean, incumbent) - 12 * sd
    return integrate.quad(integrand, low, incumbent, epsabs=0, epsrel=1e-11, limit=400, points=[incumbent - sd])[0]


def level(posterior, *, noisy):
    mean, variance = posterior.mean_var(torch.tensor(DATA.X))
    best = int(mean.argmin())
    return float(mean[best]) - noisy * math.sqrt(float(variance[best]))


@pytest.mark.parametrize("doubts", [1.0, 0.3, 0.0])  # 0: mu+ of Neural-CBO
@pytest.mark.parametrize("noise_sd", [1.5, 0.0, None])
def test_log_ei_equals_quadrature_from_the_best_mean_less_its_doubt_where_noise_is_stated(posterior, noise_sd, doubts):
    incumbent = level(posterior, noisy=doubts if noise_sd else 0.0)
    assert level(posterior, noisy=False) > DATA.targets.min()  # the noise is large enough for the two to differ
    data = replace(DATA, noise_sd=noise_sd)
    values = LogEI(doubts).score(posterior, data, NONE, 1, np.random.default_rng(0)).value(POINTS, 0, NONE)
    mean, variance = (t.tolist() for t in posterior.mean_var(POINTS))
    expected = [math.log(improvement(m, v, incumbent)) for m, v in zip(mean, variance, strict=True)]
    np.testing.assert_allclose(values.detach(), expected, atol=1e-7)


def test_pending_points_count_as_read_at_their_mean(posterior):
    pending = POINTS[4:6]
    incumbent = level(posterior, noisy=True)
    score = LogEI().score(posterior, DATA, pending, 1, np.random.default_rng(0))
    mean, variance = (t.tolist() for t in posterior.fantasize(pending).mean_var(POINTS))
    expected = [math.log(improvement(m, v, incumbent)) for m, v in zip(mean, variance, strict=True)]
    np.testing.assert_allclose(score.value(POINTS, 0, NONE).detach(), expected, atol=1e-7)


def test_no_improvement_on_the_best_mean_is_above_what_a_ceiling_on_the_score_leaves(posterior):
    grid = torch.linspace(-1, 1, 2001, dtype=torch.float64).unsqueeze(-1)
    mean, variance = (t.tolist() for t in posterior.mean_var(grid[::20]))
    best = level(posterior, noisy=False)
    expected = max(improvement(m, v, best) for m, v in zip(mean, variance, strict=True))
    for acquisition in (LogEI(), LogEI(doubts=0.0), UCB()):
        values = acquisition.score(posterior, DATA, NONE, 1, np.random.default_rng(0)).value(grid, 0, NONE)
        left = acquisition.improvement(float(values.max()), posterior, DATA)
        optimistic = max(best - m + 2 * math.sqrt(v) for m, v in zip(mean, variance, strict=True))
        assert (expected if isinstance(acquisition, LogEI) else optimistic) <= left


def test_a_negative_doubt_is_refused():
    with pytest.raises(ValueError, match=r"doubts is -1\.0: give a finite number >= 0, in standard deviations"):
        LogEI(doubts=-1.0)


class Basins:
    """Two basins: the better one read often and known to 0.3, the other, at 0.6, known to 0.8."""

    def mean_var(self, X):
        right = X[:, 0] > 0
        return torch.where(right, -0.2, -1.0) + (X[:, 0].abs() - 0.6).square(), torch.where(right, 0.64, 0.09)


@pytest.mark.parametrize(("noise_sd", "at"), [(None, -0.6), (0.5, 0.6)])
def test_under_noise_the_doubt_about_the_best_point_is_no_reason_to_stay_beside_it(noise_sd, at):
    data = Observations(X=[[-0.6], [0.1]], y=[-1.0, 0.1], maximize=False, noise_sd=noise_sd)
    grid = torch.linspace(-1, 1, 201, dtype=torch.float64).unsqueeze(-1)
    values = LogEI().score(Basins(), data, NONE, 1, np.random.default_rng(0)).value(grid, 0, NONE)
    assert float(grid[values.argmax()]) == pytest.approx(at)


@pytest.mark.parametrize("acquisition", [LogEI(), UCB()])
def test_points_chosen_earlier_in_the_batch_count_like_pending_ones(posterior, acquisition):
    rng = np.random.default_rng(0)
    together = acquisition.score(posterior, DATA, POINTS[3:5], 2, rng).value(POINTS, 1, NONE)
    apart = acquisition.score(posterior, DATA, POINTS[3:4], 2, rng).value(POINTS, 1, POINTS[4:5])
    alone = acquisition.score(posterior, DATA, POINTS[3:4], 2, rng).value(POINTS, 0, NONE)
    torch.testing.assert_close(together, apart, rtol=0, atol=0)
    assert apart[4] < alone[4]


class Plain:
    """A posterior given by formulas: mean 1 + 1000 x^2 and a constant variance."""

    def __init__(self, variance):
        self.variance = variance

    def mean_var(self, X):
        mean = 1 + 1000 * X.square().sum(dim=1)
        return mean, torch.full_like(mean, self.variance)


@pytest.mark.parametrize("variance", [1.0, 1e-6])
def test_log_ei_keeps_a_value_and_a_gradient_where_the_improvement_underflows(variance):
    data = Observations(X=[[0.0]], y=[0.0], maximize=False)
    X = torch.tensor([[0.5], [0.9], [-1.0]], dtype=torch.float64, requires_grad=True)
    value = LogEI().score(Plain(variance), data, NONE, 1, np.random.default_rng(0)).value(X, 0, NONE)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()
    assert value[0] > value[1] > value[2]
    assert (gradient.sign() == -X.sign()).all()


def test_ucb_is_the_optimistic_bound(posterior):
    mean, variance = posterior.mean_var(POINTS)
    value = UCB(beta=9.0).score(posterior, DATA, NONE, 1, np.random.default_rng(0)).value(POINTS, 0, NONE)
    torch.testing.assert_close(value, 3 * variance.sqrt() - mean, rtol=1e-12, atol=1e-12)


def test_ucb_without_weight_is_greedy(posterior):
    value = UCB(beta=0.0).score(posterior, DATA, NONE, 1, np.random.default_rng(0)).value(POINTS, 0, NONE)
    assert int(value.argmax()) == int(posterior.mean_var(POINTS)[0].argmin())


@pytest.mark.parametrize("beta", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_no_weight_is_refused(beta):
    with pytest.raises(ValueError, match=f"beta is {beta}: give a finite number >= 0"):
        UCB(beta=beta)


def test_thompson_chooses_each_point_as_often_as_it_is_the_minimiser(posterior):
    q, points = 100, POINTS[::2]
    score = Thompson().score(posterior, DATA, NONE, q, np.random.default_rng(4))
    with torch.no_grad():
        chosen = [int(score.value(points, slot, NONE).argmax()) for slot in range(q)]
        joint = posterior.model.posterior((points + 1) / 2)
        mean, covariance = joint.mean.squeeze(-1).numpy(), joint.distribution.covariance_matrix.numpy()
    exact = np.random.default_rng(0).multivariate_normal(mean, covariance, size=200_000).argmin(axis=1)
    p = np.bincount(exact, minlength=len(points)) / len(exact)
    frequency = np.bincount(chosen, minlength=len(points)) / q
    assert p.max() < 0.95  # otherwise the comparison says nothing
    assert np.all(np.abs(frequency - p) < 4.5 * np.sqrt(p * (1 - p) / q) + 2 / q)


@pytest.mark.parametrize("draw", ["pathwise", "joint"])
def test_thompsons_slopes_and_first_look_are_those_of_its_draw(draw):
    posterior = ExactGP(draw=draw, restarts=0).fit(DATA, np.random.default_rng(0), None, no_report)
    score = Thompson().score(posterior, DATA, NONE, 2, np.random.default_rng(4))
    for slot in range(2):
        expected = automatic(lambda X, slot=slot: score.value(X, slot, NONE), POINTS)
        for found, known in zip(score.value_and_grad(POINTS, slot, NONE), expected, strict=True):
            torch.testing.assert_close(found, known, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(score.screened(POINTS, slot, NONE), expected[0], rtol=0, atol=2e-5)


def test_thompson_follows_another_function_in_every_place(posterior):
    score = Thompson().score(posterior, DATA, NONE, 3, np.random.default_rng(4))
    first, second, third = (score.value(POINTS, slot, NONE) for slot in range(3))
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
    torch.testing.assert_close(first, score.value(POINTS, 0, POINTS[:1]), rtol=0, atol=0)
