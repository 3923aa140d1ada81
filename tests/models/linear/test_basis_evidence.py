import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from fieldcraft.models.linear.basis_evidence import DECAY_SD, Prior, Weights, choose_prior, log_evidence, log_evidences

RNG_SEED = 4


def example(n, count):
    rng = np.random.default_rng(RNG_SEED)
    return rng.standard_normal((n, count)), np.arange(count, dtype=float), rng.standard_normal(n)


@pytest.mark.parametrize(("n", "count"), [(5, 12), (12, 5), (7, 7)])
def test_log_evidence_is_the_density_of_the_targets_and_its_gradient_a_difference_quotient(n, count):
    features, degrees, y = example(n, count)
    at = np.array([0.3, -0.2, -2.0])
    value, slope = log_evidence(features, degrees, y, Prior(*at))
    covariance = (features * Prior(*at).sizes(degrees) ** 2) @ features.T + np.exp(-2.0) * np.eye(n)
    assert value == pytest.approx(multivariate_normal(np.zeros(n), covariance).logpdf(y), rel=1e-10)
    for i in range(3):
        step = np.eye(3)[i] * 1e-5
        up, down = (log_evidence(features, degrees, y, Prior(*(at + s)))[0] for s in (step, -step))
        assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(("n", "count"), [(5, 12), (12, 5)])
def test_evidences_at_several_priors_are_those_at_each(n, count):
    features, degrees, y = example(n, count)
    at = np.array([[0.3, -0.2, -2.0], [-1.0, 0.4, -6.0], [2.0, 0.0, -0.5]])
    values, slopes = log_evidences(features, degrees, y, at)
    for row, value, slope in zip(at, values, slopes, strict=True):
        alone, by = log_evidence(features, degrees, y, Prior(*row))
        assert value == pytest.approx(alone, rel=1e-12)
        np.testing.assert_allclose(slope, by, rtol=1e-10)


def test_the_chosen_prior_is_no_worse_than_any_on_a_grid():
    features, degrees, y = example(15, 10)
    prior, best = choose_prior(features, degrees, y, 0.04)
    assert prior.noise == pytest.approx(0.04)
    grid = [
        log_evidence(features, degrees, y, Prior(s, q, prior.log_noise))[0] - 0.5 * (q / DECAY_SD) ** 2
        for s in np.linspace(-6, 6, 25)
        for q in np.linspace(-2.5, 0.6, 25)
    ]
    assert best - 0.5 * (prior.log_decay / DECAY_SD) ** 2 >= max(grid)
    assert best == log_evidence(features, degrees, y, prior)[0]


def test_an_unknown_noise_is_found_by_evidence():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 4))
    y = features @ np.array([1.0, -1.0, 0.5, 2.0]) + 0.2 * rng.standard_normal(300)
    assert choose_prior(features, np.zeros(4), y, None)[0].noise == pytest.approx(0.04, rel=0.2)


@pytest.mark.parametrize(("n", "count"), [(4, 9), (9, 4)])
def test_weights_are_the_gaussian_posterior_of_the_dense_formula(n, count):
    features, _, y = example(n, count)
    noise = 0.05
    found = Weights.of(torch.from_numpy(features), torch.from_numpy(y), noise)
    gain = features.T @ np.linalg.inv(features @ features.T + noise * np.eye(n))
    np.testing.assert_allclose(found.mean, gain @ y, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.spread @ found.spread.mT, np.eye(count) - gain @ features, rtol=0, atol=1e-10)


def test_believing_rows_keeps_the_mean_and_gives_the_covariance_of_all_rows():
    features, _, y = example(6, 9)
    rows = torch.from_numpy(features)
    believed = Weights.of(rows[:4], torch.from_numpy(y[:4]), 0.05).fantasize(rows[4:])
    together = Weights.of(rows, torch.from_numpy(y), 0.05)
    assert torch.equal(believed.mean, Weights.of(rows[:4], torch.from_numpy(y[:4]), 0.05).mean)
    torch.testing.assert_close(
        believed.spread @ believed.spread.mT, together.spread @ together.spread.mT, rtol=0, atol=1e-12
    )
