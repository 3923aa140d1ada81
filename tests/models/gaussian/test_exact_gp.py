"""The exact Gaussian process against formulas written out by hand (Rasmussen and Williams, 2006, eq. 2.25-2.26)."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats

from fieldcraft.models.gaussian.process import ExactPosteriors
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (14, 2))
Y = 40 * np.sin(3 * X[:, 0]) + 5 * X[:, 1] + RNG.normal(0, 1.0, 14) + 300
Z = RNG.uniform(-1, 1, (9, 2))
KERNELS = ("matern12", "matern32", "matern52", "rbf")
CASES = [(kernel, noise) for kernel in KERNELS for noise in ("fitted", "known")]


def data(**changes):
    return Observations(**({"X": X, "y": Y, "maximize": True, "noise_sd": 1.0} | changes))


def fitted(kernel="matern52", noise="fitted", **changes):
    return ExactGP(kernel=kernel, noise=noise).fit(data(**changes), np.random.default_rng(3), None, no_report)


def hand_kernel(posterior, kernel, A, B, scales=None):
    scales = np.array([posterior.metrics[f"length_scale_{i}"] for i in range(2)]) if scales is None else scales
    r = np.sqrt((((A[:, None, :] - B[None, :, :]) / scales) ** 2).sum(axis=-1))
    if kernel == "rbf":
        return np.exp(-0.5 * r**2)
    powers = {"matern12": (1,), "matern32": (1, math.sqrt(3) * r), "matern52": (1, math.sqrt(5) * r, 5 * r**2 / 3)}
    return sum(powers[kernel]) * np.exp(-r * math.sqrt(2 * len(powers[kernel]) - 1))


def mean_constant(posterior):
    return float(posterior.state()["parameter.mean_module.raw_constant"])


def hand_posterior(posterior, kernel, inputs, targets, points):
    noise = posterior.metrics["noise_sd"] ** 2
    K = hand_kernel(posterior, kernel, inputs, inputs) + noise * np.eye(len(inputs))
    k = hand_kernel(posterior, kernel, points, inputs)
    m = mean_constant(posterior)
    mean = m + k @ np.linalg.solve(K, targets - m)
    covariance = hand_kernel(posterior, kernel, points, points) - k @ np.linalg.solve(K, k.T)
    return mean, covariance


@pytest.mark.parametrize(("kernel", "noise"), CASES)
def test_mean_and_variance_equal_the_formula(kernel, noise):
    posterior = fitted(kernel, noise)
    mean, variance = posterior.mean_var(torch.tensor(Z))
    expected_mean, expected_covariance = hand_posterior(posterior, kernel, X, data().targets, Z)
    np.testing.assert_allclose(mean.detach(), expected_mean, atol=1e-9)
    np.testing.assert_allclose(variance.detach(), np.diag(expected_covariance), atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_target_left_out_is_foretold_from_the_others_about_their_best_constant(kernel):
    posterior, targets = fitted(kernel), data().targets
    K = hand_kernel(posterior, kernel, X, X) + float(posterior.noise_variance) * np.eye(len(X))
    errors, variances = posterior.left_out
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        weights = np.linalg.solve(
            K[np.ix_(others, others)], np.stack([targets[others], np.ones(len(others)), K[others, i]], 1)
        )
        constant = weights[:, 0].sum() / weights[:, 1].sum()
        mean = constant + K[i, others] @ (weights[:, 0] - constant * weights[:, 1])
        assert targets[i] - errors[i] @ targets == pytest.approx(mean, abs=1e-9)
        assert variances[i] == pytest.approx(K[i, i] - K[i, others] @ weights[:, 2], rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_processes_asked_together_say_what_each_says_alone(kernel):
    alone = tuple(fitted(kernel, y=values) for values in (Y, X[:, 0] ** 2, 10 - Y * X[:, 1]))
    means, variances = ExactPosteriors(alone).mean_var(Z)
    for posterior, mean, variance in zip(alone, means, variances, strict=True):
        expected_mean, expected_covariance = hand_posterior(posterior, kernel, X, posterior.fit.targets.numpy(), Z)
        np.testing.assert_allclose(mean, expected_mean, atol=1e-9)
        np.testing.assert_allclose(variance, np.diag(expected_covariance), atol=1e-9)


def test_many_designs_are_asked_of_processes_together_in_the_memory_of_a_few():
    alone = tuple(fitted(y=Y * (1 + i * X[:, 0])) for i in range(8))
    points = np.random.default_rng(0).uniform(-1, 1, (60_000, 2))
    together = ExactPosteriors(alone)
    tracemalloc.start()
    means, variances = together.mean_var(points)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(X) * points.shape[0] * 8  # of the covariances with all designs
    for posterior, *found in zip(alone, means, variances, strict=True):
        for one, other in zip(posterior.mean_var(torch.tensor(points)), found, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)
    assert [each.shape for each in together.mean_var(points[:0])] == [(8, 0), (8, 0)]


def test_known_noise_is_the_noise_of_a_target():
    assert fitted(noise="known").metrics["noise_sd"] == pytest.approx(1.0 / Y.std(ddof=1), rel=1e-12)


def hand_log_posterior(posterior, kernel, scales, noise, constant):
    """Log marginal likelihood plus the log priors of Hvarfner et al. (2024); scales on [0, 1] inputs."""
    K = hand_kernel(posterior, kernel, (X + 1) / 2, (X + 1) / 2, scales) + noise * np.eye(len(X))
    likelihood = stats.multivariate_normal(np.full(len(X), constant), K).logpdf(data().targets)
    root = math.sqrt(2)
    wide = stats.lognorm(s=math.sqrt(3), scale=root * math.exp(math.sqrt(2))).logpdf(scales).sum()
    narrow = stats.lognorm(s=0.5, scale=root * math.exp(math.sqrt(2) - 3 + 0.25)).logpdf(scales).sum()
    odds = math.log(math.sqrt(3) / 0.5)  # of the wide prior: the ratio of the spreads, to the power d / 2
    priors = np.logaddexp(wide + odds, narrow) - math.log(1 + math.exp(odds))
    return likelihood + priors + stats.lognorm(s=1.0, scale=math.exp(-4.0)).logpdf(noise)


@pytest.mark.parametrize("kernel", KERNELS)
def test_hyper_parameters_maximise_the_log_posterior(kernel):
    posterior = fitted(kernel)
    scales = np.array([posterior.metrics[f"length_scale_{i}"] for i in range(2)]) / 2
    best = (scales, posterior.metrics["noise_sd"] ** 2, mean_constant(posterior))
    reached = hand_log_posterior(posterior, kernel, *best)
    assert posterior.metrics["log_posterior"] == pytest.approx(reached, abs=1e-8)
    for factor in (0.9, 1.1):
        for i in range(2):
            moved = np.where(np.arange(2) == i, scales * factor, scales)
            assert hand_log_posterior(posterior, kernel, moved, *best[1:]) < reached
        assert hand_log_posterior(posterior, kernel, scales, best[1] * factor, best[2]) < reached
        assert hand_log_posterior(posterior, kernel, scales, best[1], best[2] + 2 * (factor - 1)) < reached


def test_the_order_of_the_trials_does_not_matter():
    posterior = fitted()
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = data(X=X[order], y=Y[order])
    state = posterior.state() | {"X": torch.tensor(shuffled.X), "targets": torch.tensor(shuffled.targets)}
    again = ExactGP().restore(shuffled, state)
    for one, other in zip(posterior.mean_var(torch.tensor(Z)), again.mean_var(torch.tensor(Z)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("kernel", ["matern52", "rbf"])
def test_believing_points_equals_the_formula_with_readings_at_the_mean(kernel):
    posterior = fitted(kernel)
    pending = Z[:3]
    mean = posterior.mean_var(torch.tensor(pending))[0].numpy()
    believed = posterior.fantasize(torch.tensor(pending)).mean_var(torch.tensor(Z))
    inputs, targets = np.vstack([X, pending]), np.append(data().targets, mean)
    expected_mean, expected_covariance = hand_posterior(posterior, kernel, inputs, targets, Z)
    np.testing.assert_allclose(believed[0], expected_mean, atol=1e-8)
    np.testing.assert_allclose(believed[1], np.diag(expected_covariance), atol=1e-8)


@pytest.mark.parametrize("kernel", ["matern52", "rbf"])
def test_draws_have_the_joint_distribution_of_the_formula(kernel):
    posterior, q = fitted(kernel), 120
    with torch.no_grad():
        draws = torch.stack([f(torch.tensor(Z)) for f in posterior.draw(q, np.random.default_rng(0))]).numpy()
    mean, covariance = hand_posterior(posterior, kernel, X, data().targets, Z)
    # Whitened by the formula, the values have mean 0 and covariance I. Over random features they are not Gaussian:
    # with 1,500 draws their fourth moments were found between 3 and 6, so squares have a standard error of sqrt(5 / q).
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert np.all(np.abs(white.mean(axis=1)) < 4.5 / math.sqrt(q))
    assert abs(np.mean(white**2) - 1) < 4.5 * math.sqrt(5 / white.size)
    assert np.all(np.abs(np.cov(white) - np.eye(len(Z))) < 4.5 * math.sqrt(5 / q))


def test_gradients_of_mean_variance_and_draws_equal_finite_differences():
    posterior = fitted()
    path = posterior.draw(1, np.random.default_rng(0))[0]
    points = torch.tensor(Z[:3], requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (*posterior.mean_var(x), path(x)), points, eps=1e-6, atol=1e-5)


def test_fitting_and_drawing_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    fitted().draw(2, np.random.default_rng(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("y", [Y[:1], np.full(14, 300.0), np.linspace(0, 1e-9, 14) + 300])
def test_one_reading_and_constant_readings_can_be_fitted(y):
    mean, variance = fitted(X=X[: len(y)], y=y, noise_sd=None).mean_var(torch.tensor(Z))
    assert torch.isfinite(mean).all()
    assert (variance > 0).all()


def test_repeated_designs_can_be_fitted_without_noise():
    posterior = fitted(noise="known", X=np.vstack([X, X]), y=np.append(Y, Y), noise_sd=0.0)
    assert torch.isfinite(posterior.mean_var(torch.tensor(Z))[0]).all()


def test_known_noise_that_nobody_states_is_refused():
    with pytest.raises(ValueError, match='noise is "known" but these observations state none'):
        fitted(noise="known", noise_sd=None)


def test_negative_restarts_are_refused():
    with pytest.raises(ValueError, match="restarts is -1"):
        ExactGP(restarts=-1)


def test_hyper_parameters_of_another_model_are_refused():
    state = fitted(noise="known").state()
    state.pop("noise")
    with pytest.raises(ValueError, match="not those of this Gaussian process"):
        ExactGP().restore(data(), state)
