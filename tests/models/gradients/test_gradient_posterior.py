"""Gaussian processes of values and gradients against a joint covariance written out by hand, and against refitting."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from fieldcraft.models.gradients.fit import MOST_ROWS, JointQuestion, told
from fieldcraft.models.gradients.posterior import GradientPosterior
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (9, 2))
Z = RNG.uniform(-1, 1, (6, 2))
KERNELS = ("matern32", "matern52", "rbf")


def value(X):
    return 40 * np.sin(2 * X[:, 0]) + 5 * X[:, 0] * X[:, 1] + 300


def gradient(X):
    return np.column_stack([80 * np.cos(2 * X[:, 0]) + 5 * X[:, 1], 5 * X[:, 0]])


def data(**changes):
    known = gradient(X)
    known[2] = np.nan  # recorded by hand
    known[5, 1] = np.nan
    return Observations(**({"X": X, "y": value(X), "maximize": True, "gradients": known} | changes))


def fitted(kernel="matern52", **changes):
    return ExactGP(kernel=kernel, restarts=0).fit(data(**changes), np.random.default_rng(0), None, no_report)


def correlation(kernel, a, b, scales):
    r = torch.sqrt((((a - b) / scales) ** 2).sum() + 1e-300)
    if kernel == "rbf":
        return torch.exp(-(r**2) / 2)
    c = math.sqrt(3 if kernel == "matern32" else 5) * r
    return (1 + c + (c**2 / 3 if kernel == "matern52" else 0)) * torch.exp(-c)


def block(kernel, a, b, scales):
    """Covariance of (f, df/dx1, df/dx2) at two points, by automatic differentiation of the kernel."""
    if np.array_equal(a, b):  # the limit: minus the second derivatives at the distance zero
        curve = {"matern32": 3.0, "matern52": 5 / 3, "rbf": 1.0}[kernel]
        return np.diag([1.0, *(curve / scales.numpy() ** 2)])
    both = torch.tensor(a), torch.tensor(b)

    def k(p, q):
        return correlation(kernel, p, q, scales)

    by_a, by_b = torch.autograd.functional.jacobian(k, both)
    cross = torch.autograd.functional.hessian(k, both)[0][1]
    top = torch.cat([k(*both)[None], by_b])
    return torch.cat([top[None], torch.cat([by_a[:, None], cross], dim=1)]).numpy()


def dense(posterior, kernel, points, others):
    scales = posterior.scales
    return np.block([[block(kernel, a, b, scales) for b in others] for a in points])


def hand(posterior, kernel, Z):
    """Mean and variance at Z, density of each target given the other trials, and the log likelihood."""
    d = data()
    y = np.column_stack([d.targets, told(d)]).ravel()
    known = np.flatnonzero(~np.isnan(y))
    v, (l1, l2) = posterior.metrics["noise_sd"] ** 2, posterior.scales.numpy()
    curve = {"matern32": 3.0, "matern52": 5 / 3, "rbf": 1.0}[kernel]
    # by encoded coordinates, of which an interval has two
    noise = np.tile([v, v * (curve / l1**2 + 1 / 4), v * (curve / l2**2 + 1 / 4)], len(X))[known]
    h = (known % 3 == 0).astype(float)
    S = dense(posterior, kernel, X, X)[np.ix_(known, known)] + np.diag(noise)
    c = h @ np.linalg.solve(S, y[known]) / (h @ np.linalg.solve(S, h))
    k = dense(posterior, kernel, X, Z)[known][:, ::3]
    mean = c + k.T @ np.linalg.solve(S, y[known] - c * h)
    variance = 1 - np.einsum("ij,ij->j", k, np.linalg.solve(S, k))
    out = []
    for trial in range(len(X)):
        mine = known // 3 == trial
        rest, own = ~mine, np.flatnonzero(mine & (known % 3 == 0))[0]
        solved = np.linalg.solve(S[np.ix_(rest, rest)], S[rest, own])
        expected = c + solved @ (y[known] - c * h)[rest]
        spread = math.sqrt(S[own, own] - solved @ S[rest, own])
        out.append(stats.norm(expected, spread).logpdf(y[known][own]))
    return mean, variance, np.array(out), stats.multivariate_normal(c * h, S).logpdf(y[known])


@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_and_leave_one_trial_out_are_those_of_the_joint_covariance(kernel):
    posterior = fitted(kernel)
    mean, variance, left_out, _ = hand(posterior, kernel, Z)
    found = posterior.mean_var(torch.tensor(Z))
    np.testing.assert_allclose(found[0], mean, atol=1e-7)
    np.testing.assert_allclose(found[1], variance, atol=1e-7)
    np.testing.assert_allclose(posterior.log_predictive(), left_out, rtol=1e-5, atol=1e-5)


def test_the_density_of_the_hyper_parameters_is_that_of_the_rows_with_the_priors():
    posterior = fitted()
    likelihood = hand(posterior, "matern52", Z)[3]
    d = data()
    rows = np.count_nonzero(~np.isnan(told(d)))  # the unit cube is half as wide: each derivative twice as large
    scales, v = posterior.scales.numpy() / 2, posterior.metrics["noise_sd"] ** 2
    priors = stats.lognorm(s=math.sqrt(3), scale=math.exp(math.sqrt(2) + 0.5 * math.log(2))).logpdf(scales).sum()
    priors += stats.lognorm(s=1.0, scale=math.exp(-4.0)).logpdf(v)
    expected = likelihood - rows * math.log(2) + priors
    assert posterior.metrics["log_posterior"] == pytest.approx(expected, abs=1e-4)


def test_the_gradient_of_the_density_is_its_difference():
    density = JointQuestion("matern52", False, 1, ByDigest.of(data())).density()
    theta = np.array([-0.3, 0.4, -3.0])
    _, slope = density(theta)
    for i, move in enumerate(1e-5 * np.eye(3)):
        assert slope[i] == pytest.approx((density(theta + move)[0] - density(theta - move)[0]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_slopes_of_the_moments_are_their_differences(kernel):
    posterior = fitted(kernel)
    at, points = posterior.moment_slopes(torch.tensor(Z)), torch.tensor(Z, requires_grad=True)
    for values, found in zip(posterior.mean_var(points), (at.by_mean, at.by_variance), strict=True):
        (expected,) = torch.autograd.grad(values.sum(), points, retain_graph=True)
        np.testing.assert_allclose(found, expected, atol=1e-8)
    for i, move in enumerate(1e-5 * np.eye(2)):
        ahead, behind = (posterior.mean_var(torch.tensor(Z + way * move))[0] for way in (1, -1))
        np.testing.assert_allclose(at.by_mean[:, i], (ahead - behind) / 2e-5, atol=1e-6)


def test_a_quadratic_is_known_from_few_values_and_slopes():
    points = np.array([[-0.9], [-0.3], [0.3], [0.8]])
    told = Observations(points, (points**2).ravel(), False, noise_sd=0.0, gradients=2 * points)
    places = np.linspace(-0.9, 0.8, 18)[:, None]

    def error(data):
        posterior = ExactGP(kernel="rbf", noise="known").fit(data, np.random.default_rng(0), None, no_report)
        mean = posterior.mean_var(torch.tensor(places))[0].numpy()
        return np.abs(data.scaling.to_physical(mean) - (places**2).ravel()).max()

    assert error(told) < 0.01 < 0.1 < error(replace(told, gradients=None))


def test_draws_have_the_moments_of_the_posterior():
    posterior = fitted("rbf")
    with torch.no_grad():
        draws = torch.stack([f(torch.tensor(Z)) for f in posterior.draw(1500, np.random.default_rng(1))])
    mean, variance = posterior.mean_var(torch.tensor(Z))
    assert ((draws.mean(0) - mean).abs() < 5 * (variance / 1500).sqrt() + 1e-3).all()
    torch.testing.assert_close(draws.var(0), variance, rtol=0.25, atol=1e-5)


def test_a_believed_result_keeps_the_mean_and_lowers_the_variance():
    posterior = fitted()
    mean, variance = posterior.mean_var(torch.tensor(Z))
    later = posterior.fantasize(torch.tensor(Z[:2]))
    again = later.mean_var(torch.tensor(Z))
    torch.testing.assert_close(again[0], mean, rtol=0, atol=1e-9)
    assert (again[1] <= variance + 1e-12).all() and again[1][0] < variance[0]


def test_the_state_restores_the_posterior_to_the_bit_and_that_of_other_gradients_is_refused():
    posterior = fitted()
    again = ExactGP(restarts=0).restore(data(), posterior.state())
    for one, other in zip(posterior.mean_var(torch.tensor(Z)), again.mean_var(torch.tensor(Z)), strict=True):
        assert torch.equal(one, other)
    assert (again.metrics, again.remarks) == (posterior.metrics, posterior.remarks)
    with pytest.raises(ValueError, match="not of a Gaussian process fitted to these 9 trials"):
        ExactGP(restarts=0).restore(data(gradients=gradient(X)), posterior.state())


def test_maximising_is_minimising_the_negative():
    other = fitted(y=-value(X), maximize=False, gradients=-data().gradients)
    for one, two in zip(fitted().mean_var(torch.tensor(Z)), other.mean_var(torch.tensor(Z)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def test_a_variable_without_effect_keeps_a_finite_length_scale():
    flat = gradient(X) * [1, 0]
    posterior = fitted(y=40 * np.sin(2 * X[:, 0]), gradients=flat)
    assert posterior.metrics["length_scale_1"] < 1e5


def test_a_kernel_without_gradients_learns_from_the_values_and_says_so():
    posterior, alone = fitted("matern12"), fitted("matern12", gradients=None)
    assert "matern12 has none" in posterior.remarks["gradients"] and not alone.remarks
    for one, other in zip(posterior.mean_var(torch.tensor(Z)), alone.mean_var(torch.tensor(Z)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("wrong", [lambda slopes: -slopes, lambda slopes: 30 * slopes], ids=["sign", "unit"])
def test_gradients_that_contradict_the_results_are_left_out_which_is_told(wrong):
    many = np.random.default_rng(0).uniform(-1, 1, (16, 2))
    known = {"X": many, "y": value(many)}
    right, alone = fitted(**known, gradients=gradient(many)), fitted(**known, gradients=None)
    posterior = fitted(**known, gradients=wrong(gradient(many)))
    assert right.remarks["gradients"] == "of 16 of 16 trials"
    assert posterior.remarks["gradients"].startswith("left out: the results are likelier without them")
    again = ExactGP(restarts=0).restore(data(**known, gradients=wrong(gradient(many))), posterior.state())
    for each in (posterior, again):
        for one, other in zip(each.mean_var(torch.tensor(Z)), alone.mean_var(torch.tensor(Z)), strict=True):
            assert torch.equal(one, other)
    assert (again.metrics, again.remarks) == (posterior.metrics, posterior.remarks)


def test_of_very_many_derivatives_those_of_the_best_trials_count():
    n, d = 400, 5
    points = np.random.default_rng(2).uniform(-1, 1, (n, d))
    many = Observations(points, points[:, 0], False, gradients=np.ones((n, d)))
    used = ~np.isnan(told(many)).any(axis=1)
    assert n + d * used.sum() == MOST_ROWS
    assert many.y[used].max() < many.y[~used].min()


def test_gradients_are_part_of_the_digest_and_must_fit():
    plain = data(gradients=None)
    assert len({plain.digest, data().digest, data(gradients=gradient(X)).digest}) == 3
    assert data().first(4).gradients.shape == (4, 2)
    np.testing.assert_array_equal(data().among(np.array([0, 3])).gradients, data().gradients[[0, 3]])
    with pytest.raises(ValueError, match=r"gradients \(8, 2\) of designs \(9, 2\)"):
        data(gradients=gradient(X)[:8])


def test_a_posterior_is_made_of_gradients_only_where_there_are_any():
    assert isinstance(fitted(), GradientPosterior)
    assert not isinstance(fitted(gradients=np.full((9, 2), np.nan)), GradientPosterior)
