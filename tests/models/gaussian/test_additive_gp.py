"""The additive process against closed forms: its kernel, its evidence's gradient, its draws and what it is for."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.gaussian import additive_evidence, additive_kernel
from fieldcraft.models.gaussian.additive_evidence import AdditiveEvidence, fit_kernel
from fieldcraft.models.gaussian.additive_kernel import AdditiveKernel
from fieldcraft.models.numerics.milestones import milestone
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (14, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - 0.5 * X[:, 2]
KERNEL = AdditiveKernel.of(np.array([-1.0, 0.2, -0.4, -2.0, 0.1, -0.5, 0.4, 0.8, math.log(0.01)]))


def matern(r):
    s = math.sqrt(5) * r
    return (1 + s + s * s / 3) * math.exp(-s)


def fitted(surrogate, X, y, seed=0, **known):
    data = Observations(X=X, y=y, maximize=False, **known)
    return surrogate.fit(data, np.random.default_rng(seed), None, no_report), data


def test_the_kernel_is_the_stated_sum():
    a, b = X[2], X[7]
    sizes, scales = KERNEL.sizes.exp().tolist(), KERNEL.scales.exp().tolist()
    parts = [sizes[i] * matern(abs(a[i] - b[i]) / scales[i]) for i in range(3)]
    expected = 1 + sum(parts) + sizes[3] * matern(np.linalg.norm(a - b) / scales[3])
    found = KERNEL(torch.tensor(a[None]), torch.tensor(b[None]))
    assert float(found) == pytest.approx(expected, rel=1e-12)
    assert KERNEL.variance == pytest.approx(float(KERNEL(torch.tensor(a[None]), torch.tensor(a[None]))), rel=1e-12)


def test_the_kernels_gradient_in_a_point_is_that_of_finite_differences():
    point = torch.tensor(X[:1], requires_grad=True)
    (slope,) = torch.autograd.grad(KERNEL(point, torch.tensor(X[1:])).sum(), point)
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-6
        ends = [float(KERNEL(torch.tensor(X[:1] + s), torch.tensor(X[1:])).sum()) for s in (step, -step)]
        assert float(slope[0, i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_the_kernels_gradient_at_a_trial_itself_is_finite():
    point = torch.tensor(X[:1], requires_grad=True)
    (slope,) = torch.autograd.grad(KERNEL(point, torch.tensor(X)).sum(), point)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("noise", [None, 0.01])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(noise):
    evidence = AdditiveEvidence(X, Y, noise)
    at = KERNEL.flat()
    slope = evidence(at)[1]
    for i in range(len(at)):
        step = np.zeros(len(at))
        step[i] = 1e-6
        expected = (evidence(at + step)[0] - evidence(at - step)[0]) / 2e-6
        assert slope[i] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_the_evidence_is_the_normal_density_times_the_prior():
    covariance = KERNEL(torch.tensor(X), torch.tensor(X)) + KERNEL.noise * torch.eye(14, dtype=torch.float64)
    normal = torch.distributions.MultivariateNormal(torch.zeros(14, dtype=torch.float64), covariance)
    evidence = AdditiveEvidence(X, Y, None)
    pull = (KERNEL.flat() - evidence.centre) / evidence.spread
    expected = float(normal.log_prob(torch.tensor(Y))) - 0.5 * float(pull @ pull)
    assert evidence(KERNEL.flat())[0] == pytest.approx(expected, rel=1e-10)


def test_known_noise_is_not_moved():
    data = Observations(X, Y, maximize=False, noise_sd=0.2)
    kernel, _ = fit_kernel(data, known=True, restarts=0)
    assert kernel.noise == pytest.approx((0.2 / data.scaling.sd) ** 2, rel=1e-12)


def wavy(n, d=4):
    points = np.random.default_rng(8).uniform(-1, 1, (n, d))
    return Observations(points, np.cos(9 * points).sum(1), maximize=False)


def test_the_kernels_slopes_in_both_points_are_those_of_finite_differences():
    A, B = (torch.tensor(wavy(n).X[:, :3]).requires_grad_() for n in (5, 7))
    assert torch.autograd.gradcheck(KERNEL, (A, B), atol=1e-8)


def test_a_kernel_in_blocks_is_that_of_its_rows(monkeypatch):
    A, B = torch.tensor(wavy(70).X[:, :3]), torch.tensor(X)
    whole = KERNEL(A, B)
    monkeypatch.setattr(additive_kernel, "_BLOCK", 50)
    torch.testing.assert_close(KERNEL(A, B), whole, rtol=0, atol=1e-14)
    assert torch.equal(KERNEL(B, B), KERNEL(B, B).mT)


def test_hyper_parameters_depend_on_the_milestone_alone_in_the_units_of_all_trials():
    data = wavy(54)
    before, density = fit_kernel(data.first(50), known=False, restarts=0)
    after, same = fit_kernel(data, known=False, restarts=0)
    shift = 2 * math.log(data.first(50).scaling.sd / data.scaling.sd)
    assert density == same and torch.equal(before.scales, after.scales)
    torch.testing.assert_close(after.sizes, before.sizes + shift)
    assert after.log_noise == pytest.approx(before.log_noise + shift)
    assert not torch.equal(fit_kernel(wavy(55), known=False, restarts=0)[0].scales, after.scales)


def test_a_memo_changes_no_bit_of_a_fit():
    first, _ = fit_kernel(wavy(60), known=False, restarts=1)
    additive_evidence.fitted.cache_clear()
    again, _ = fit_kernel(wavy(57), known=False, restarts=1)
    assert torch.equal(first.scales, again.scales)


def test_no_more_trials_than_stated_are_fitted_to(monkeypatch):
    fitted_to = []

    class Watched(AdditiveEvidence):
        def __init__(self, points, y, noise):
            fitted_to.append(points)
            super().__init__(points, y, noise)

    monkeypatch.setattr(additive_evidence, "AdditiveEvidence", Watched)
    data = wavy(300, d=1)
    fit_kernel(data, known=False, restarts=0)
    (used,) = fitted_to
    assert len(used) == additive_evidence.FIT_ROWS
    assert np.array_equal(used[[0, -1]], data.X[[0, milestone(300) - 1]])


def test_functions_that_oscillate_are_found_from_short_scales():
    data = wavy(100)
    kernel, _ = fit_kernel(data, known=False, restarts=0)
    assert kernel.noise < 1e-3 and float(kernel.scales[:-1].exp().max()) < 1.0


def test_draws_have_the_posteriors_mean_and_variance():
    posterior, _ = fitted(AdditiveGP(restarts=0), X, Y)
    at = torch.tensor(RNG.uniform(-1, 1, (3, 3)))
    mean, variance = posterior.mean_var(at)
    draws = torch.stack([f(at) for f in posterior.draw(1500, np.random.default_rng(1))])
    error = (variance / 1500).sqrt()
    # Random features miss a prior's variance by a few percent.
    assert ((draws.mean(0) - mean).abs() < 4.5 * error + 0.01).all()
    assert torch.allclose(draws.var(0), variance, rtol=0.2, atol=1e-3)


def test_a_separable_function_is_predicted_far_better_than_by_a_process_of_all_coordinates():
    def f(X):
        return np.cos(4 * X).sum(1)

    points = np.random.default_rng(5).uniform(-1, 1, (50, 6))
    unseen = np.random.default_rng(6).uniform(-1, 1, (200, 6))
    errors = []
    for surrogate in (AdditiveGP(restarts=0), ExactGP(restarts=0)):
        posterior, data = fitted(surrogate, points, f(points))
        mean = posterior.mean_var(torch.tensor(unseen))[0].numpy()
        errors.append(np.sqrt(np.mean((data.scaling.to_physical(mean) - f(unseen)) ** 2)))
    assert errors[0] < 0.3 * errors[1]


def test_a_product_is_left_to_the_interaction():
    points = np.random.default_rng(5).uniform(-1, 1, (40, 2))
    posterior, _ = fitted(AdditiveGP(restarts=0), points, points[:, 0] * points[:, 1])
    assert posterior.metrics["share_interaction"] > 0.5


def test_too_much_memory_is_refused_before_a_fit():
    with pytest.raises(ValueError, match=r"14 trials in 3 coordinates needs about 2.8e-05 GB and memory_gb is 1e-06"):
        fitted(AdditiveGP(memory_gb=1e-6), X, Y)


def test_noise_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="observations state none"):
        fitted(AdditiveGP(noise="known"), X, Y)
