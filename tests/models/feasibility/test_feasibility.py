"""The classifier of success and failure against integrals, difference quotients and algebra written out by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from fieldcraft.models.feasibility.classifier import Attempts, FeasibilityGP, Latent, log_evidence, log_prior
from fieldcraft.models.feasibility.laplace import Laplace

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (25, 2))
SUCCEEDED = X[:, 0] + 0.5 * X[:, 1] + RNG.normal(0, 0.2, 25) > -0.3
HYPER = np.array([math.log(0.7), math.log(1.6), math.log(1.8), 0.4])
Z = torch.tensor(RNG.uniform(-1, 1, (12, 2)))


def fitted(X=X, succeeded=SUCCEEDED, seed=0, **settings):
    return FeasibilityGP(**settings).fit(X, succeeded, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def posterior():
    return fitted()


def probability(posterior, points):
    return posterior.log_probability(torch.as_tensor(points)).exp().numpy()


def signs_of(succeeded):
    return np.where(succeeded, 1.0, -1.0)


def hand_kernel(A, B, flat):
    r = np.sqrt(np.square((A[:, None] - B) / np.exp(flat[:-2])).sum(-1))
    return np.exp(2 * flat[-2]) * (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r)


def hand_constant(flat):
    return flat[-1] * math.sqrt(1 + math.exp(2 * flat[-2]))


def hand_slope(f, signs):
    """d log Phi(y f) / df."""
    return signs * np.exp(stats.norm.logpdf(f) - stats.norm.logcdf(signs * f))


def hand_laplace(A, signs, flat):
    """Mode f, its curvature W and the log evidence, through K^-1 and a root of the stationarity equation."""
    K, m = hand_kernel(A, A, flat), hand_constant(flat)
    f = optimize.root(lambda f: f - m - K @ hand_slope(f, signs), np.full(len(A), m), method="hybr", tol=1e-13).x
    step = 1e-5
    W = -(hand_slope(f + step, signs) - hand_slope(f - step, signs)) / (2 * step)
    joint = stats.norm.logcdf(signs * f).sum() + stats.multivariate_normal(np.full(len(A), m), K).logpdf(f)
    # log q = log p(y, f) + n/2 log 2 pi - 1/2 log det(K^-1 + W): the integral of the quadratic expansion.
    curvature = np.linalg.slogdet(np.linalg.inv(K) + np.diag(W))[1]
    return f, W, joint + 0.5 * len(A) * math.log(2 * math.pi) - 0.5 * curvature


def brute_force(A, signs, flat, nodes=60):
    """log of the integral of prod Phi(y_i f_i) N(f; m, K), by a Gauss-Hermite rule in every dimension."""
    at, weight = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[at] * len(A)), -1).reshape(-1, len(A))
    weights = np.stack(np.meshgrid(*[weight / weight.sum()] * len(A)), -1).reshape(-1, len(A)).prod(1)
    f = hand_constant(flat) + grid @ np.linalg.cholesky(hand_kernel(A, A, flat)).T
    return math.log(weights @ stats.norm.cdf(signs * f).prod(1))


def mode_of(A, signs, flat):
    prior, points = Latent.of(flat), torch.tensor(A)
    return Laplace.mode(prior.kernel(points, points), prior.constant, torch.tensor(signs))


TWICE = np.vstack([X, X])
CONTRADICTED = np.append(SUCCEEDED, ~SUCCEEDED)
MODES = {
    "mild": (X, SUCCEEDED, HYPER),
    "sharp": (X, SUCCEEDED, np.array([-1.0, 1.0, math.log(40.0), -1.0])),
    "smooth": (X, SUCCEEDED, np.array([4.0, 4.0, math.log(20.0), 3.0])),
    "contradicted": (TWICE, CONTRADICTED, np.array([0.0, 0.0, math.log(20.0), 2.0])),
    "all failed": (X, np.zeros(25, dtype=bool), np.array([0.0, 1.0, 2.0, 5.0])),
}


@pytest.mark.parametrize("case", MODES)
def test_the_mode_satisfies_its_stationarity_equation(case):
    A, succeeded, flat = MODES[case]
    signs = signs_of(succeeded)
    f = mode_of(A, signs, flat).latent.numpy()
    np.testing.assert_allclose(
        f, hand_constant(flat) + hand_kernel(A, A, flat) @ hand_slope(f, signs), rtol=0, atol=1e-8
    )


def test_a_fitted_classifier_is_at_its_mode(posterior):
    flat, found = posterior.state()["hyperparameters"].numpy(), posterior.approximation
    f, points = found.latent.numpy(), posterior.X.numpy()
    stationary = hand_constant(flat) + hand_kernel(points, points, flat) @ hand_slope(f, found.signs.numpy())
    np.testing.assert_allclose(f, stationary, rtol=0, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_mode_evidence_and_prediction_equal_the_formulas_with_inverted_covariances(n):
    A, signs = X[:n], signs_of(SUCCEEDED[:n])
    f, W, evidence = hand_laplace(A, signs, HYPER)
    mode = mode_of(A, signs, HYPER)
    np.testing.assert_allclose(mode.latent, f, atol=1e-8)
    assert mode.log_evidence() == pytest.approx(evidence, abs=1e-7)
    K, k = hand_kernel(A, A, HYPER), hand_kernel(A, Z.numpy(), HYPER)
    prior = Latent.of(HYPER)
    mean, variance = mode.predict(torch.full((len(Z),), prior.output), prior.kernel(torch.tensor(A), Z))
    np.testing.assert_allclose(mean, k.T @ np.linalg.solve(K, f - hand_constant(HYPER)), atol=1e-8)
    explained = (k * np.linalg.solve(K + np.diag(1 / W), k)).sum(0)
    np.testing.assert_allclose(variance, math.exp(2 * HYPER[-2]) - explained, atol=1e-7)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_evidence_nears_the_integral_as_the_latent_function_becomes_small(n):
    A, signs = X[:n], signs_of(np.array([True, False, True])[:n])
    errors = []
    for sd in (1.0, 0.5, 0.25):
        flat = np.array([0.0, 0.3, math.log(sd), 0.4])
        errors.append(abs(log_evidence(torch.tensor(A), torch.tensor(signs), flat)[0] - brute_force(A, signs, flat)))
    assert 0 < errors[0] < 0.03 * n
    assert errors[1] < errors[0] / 4
    assert errors[2] < errors[1] / 8


def test_the_integral_by_quadrature_is_the_closed_form_of_one_sign():
    signs, exact = np.array([-1.0]), stats.norm.logcdf(-HYPER[-1])
    assert brute_force(X[:1], signs, HYPER) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("case", ["mild", "smooth", "contradicted", "all failed"])
def test_gradients_of_evidence_and_prior_equal_difference_quotients(case):
    A, succeeded, flat = MODES[case]
    points, signs = torch.tensor(A), torch.tensor(signs_of(succeeded))
    for function in (lambda x: log_evidence(points, signs, x), log_prior):
        slope = function(flat)[1]
        for i, step in enumerate(np.eye(len(flat)) * 1e-5):
            quotient = (function(flat + step)[0] - function(flat - step)[0]) / 2e-5
            assert slope[i] == pytest.approx(quotient, rel=1e-6, abs=1e-6)


def test_the_hyper_parameters_maximise_evidence_times_prior(posterior):
    def log_posterior(flat):
        return log_evidence(posterior.X, posterior.approximation.signs, flat)[0] + log_prior(flat)[0]

    flat = posterior.state()["hyperparameters"].numpy()
    assert posterior.metrics["log_posterior"] == pytest.approx(log_posterior(flat), abs=1e-9)
    for step in np.eye(len(flat)) * 0.05:
        assert max(log_posterior(flat + step), log_posterior(flat - step)) < posterior.metrics["log_posterior"]


def test_the_probability_is_the_probit_averaged_over_the_latent_normal(posterior):
    mean, variance = posterior.latent(Z)
    draws = np.random.default_rng(1).standard_normal((200_000, 1))
    samples = stats.norm.cdf(mean.numpy() + variance.sqrt().numpy() * draws)
    error = samples.std(0) / math.sqrt(len(draws))
    assert np.all(np.abs(samples.mean(0) - probability(posterior, Z)) < 4.5 * error)


def test_the_prior_share_of_successes_is_uniform():
    levels = np.random.default_rng(2).standard_normal(500)
    prior = [Latent.of(np.array([0.0, 1.3, level])) for level in levels]
    shares = [stats.norm.cdf(p.constant / math.sqrt(1 + p.output)) for p in prior]
    assert stats.kstest(shares, "uniform").pvalue > 1e-3


def test_probabilities_rise_towards_successes_and_fall_towards_failures():
    found = fitted(np.array([[-0.8], [-0.6], [0.5], [0.7]]), np.array([True, True, False, False]))
    line = probability(found, np.linspace(-0.6, 0.5, 30)[:, None])
    assert np.all(np.diff(line) < 0)
    assert line[0] > 0.7
    assert line[-1] < 0.3


def disc(points):
    return np.square(points - np.array([0.3, -0.2])).sum(-1) > 0.25


def test_an_infeasible_disc_is_learnt_from_forty_designs():
    designs = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    found = fitted(designs, disc(designs))
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41)), -1).reshape(-1, 2)
    assert np.mean((probability(found, grid) > 0.5) == disc(grid)) > 0.9


@pytest.mark.parametrize("outcome", [True, False])
def test_one_class_alone_gives_no_certainty_anywhere(outcome):
    found = fitted(succeeded=np.full(25, outcome))
    chance = probability(found, Z) if outcome else 1 - probability(found, Z)
    assert np.all(chance > 0.8)
    assert np.all(chance < 1 - 1 / 200)


def test_one_failure_among_many_successes_lowers_the_probability_there_without_certainty():
    succeeded = np.arange(25) != 3
    found = fitted(succeeded=succeeded)
    chance = probability(found, X)
    assert np.argmin(chance) == 3
    assert 0.1 < chance[3] < 0.6
    assert np.median(chance) > 0.8
    assert np.all(chance < 0.99)


def test_a_single_attempt_can_be_learnt_from():
    assert 0.5 < probability(fitted(X[:1], np.array([True])), X[:1])[0] < 0.95


def test_a_design_with_both_outcomes_is_even_odds():
    chance = probability(fitted(TWICE, CONTRADICTED), X)
    np.testing.assert_allclose(chance, 0.5, atol=1e-6)


def test_the_log_probability_is_finite_with_a_gradient_where_success_is_out_of_the_question(posterior):
    remote = Laplace(**{**vars(posterior.approximation), "weights": posterior.approximation.weights * 1e4})
    far = type(posterior)(**{**vars(posterior), "approximation": remote})
    points = torch.tensor(X[~SUCCEEDED][:3], requires_grad=True)
    logarithm = far.log_probability(points)
    (slope,) = torch.autograd.grad(logarithm.sum(), points)
    assert torch.all(logarithm < -1000)
    assert torch.isfinite(slope).all()
    assert torch.all(slope.abs().sum(1) > 1)


def test_gradients_in_the_design_equal_difference_quotients_at_the_attempts_too(posterior):
    points = torch.cat([Z[:2], torch.tensor(X[:2])]).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: (*posterior.latent(x), posterior.log_probability(x)), points, atol=1e-5)


@pytest.mark.parametrize("digits", [0, 16])
def test_the_same_generator_gives_the_same_bits_whatever_the_order_of_the_attempts(digits):
    designs = np.round(X, digits)
    order = np.random.default_rng(0).permutation(len(X))
    one, other = fitted(designs, SUCCEEDED), fitted(designs[order], SUCCEEDED[order])
    assert torch.equal(one.log_probability(Z), other.log_probability(Z))
    assert one.metrics == other.metrics


def test_drawn_starts_find_hyper_parameters_that_the_one_from_the_modes_misses():
    rng = np.random.default_rng(55)
    designs = rng.uniform(-1, 1, (int(rng.integers(5, 20)), 2))
    stripes = np.abs(np.sin(5 * designs[:, 0])) > 0.4
    one, more = (fitted(designs, stripes, restarts=n).metrics["log_posterior"] for n in (0, 4))
    assert more > one + 0.5


@pytest.mark.parametrize("settings", [{}, {"n_fitted": 10, "n_exact": 15}])
def test_a_restored_classifier_is_identical_to_the_bit(settings):
    found = fitted(**settings)
    again = FeasibilityGP(**settings).restore(X, SUCCEEDED, found.state())
    assert all(isinstance(value, torch.Tensor) for value in found.state().values())
    assert torch.equal(torch.stack(again.latent(Z)), torch.stack(found.latent(Z)))
    assert (again.metrics, again.remarks) == (found.metrics, found.remarks)
    assert again.state().keys() == found.state().keys()


def test_the_state_of_other_attempts_is_refused(posterior):
    with pytest.raises(ValueError, match="restore with the data of the fit"):
        FeasibilityGP().restore(X, ~SUCCEEDED, posterior.state())


def test_above_the_caps_the_classes_keep_their_shares_and_a_remark_says_so():
    found = fitted(n_fitted=10, n_exact=15)
    assert len(found.X) == 15
    failures = int((found.approximation.signs < 0).sum())
    assert failures == round(15 * np.mean(~SUCCEEDED))
    assert found.remarks == {
        "hyperparameters": "from 10 of 25 attempts",
        "attempts": "15 of 25 are learnt from, successes and failures in proportion",
    }
    assert fitted(n_fitted=25, n_exact=25).remarks == {}


@pytest.mark.parametrize("outcome", [True, False])
def test_a_cap_never_loses_the_only_one_of_its_class(outcome):
    tried = Attempts(X, np.where(np.arange(25) == 7, outcome, not outcome))
    for seed in range(5):
        kept = tried.succeeded[tried.some(4, np.random.default_rng(seed))]
        assert (len(kept), np.sum(kept == outcome)) == (4, 1)


@pytest.mark.parametrize(
    ("designs", "succeeded", "complaint"),
    [
        (X, SUCCEEDED[:3], r"X \(25, 2\) and succeeded \(3,\) do not fit"),
        (X[:0], SUCCEEDED[:0], "at least one attempt"),
        (np.array([[math.nan, 0.0]]), SUCCEEDED[:1], "X holds nan"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(designs, succeeded, complaint):
    with pytest.raises(ValueError, match=complaint):
        fitted(designs, succeeded)


def test_designs_too_far_away_for_float64_are_refused():
    with pytest.raises(ValueError, match=r"3 starts, 25 attempts\): look for designs that are far outside"):
        fitted(X * 1e200)


@pytest.mark.parametrize("settings", [{"restarts": -1}, {"n_fitted": 1}, {"n_exact": 0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        FeasibilityGP(**settings)
