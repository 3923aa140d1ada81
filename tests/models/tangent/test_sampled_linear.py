"""Closed-form draws: against the process they are drawn from and against gradient descent (methods.md section 4)."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates import sampled_linear
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.tangent.features import Perceptron, explicit
from fieldcraft.physics.images import ImageColumns

RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (6, 2))
DATA = Observations(X, 4 * np.sin(2 * X[:, 0]) - X[:, 1], maximize=False, noise_sd=1.0)
Z = torch.tensor(RNG.uniform(-1, 1, (4, 2)))


IDENTITY = torch.eye(6, dtype=torch.float64)


def fit(data=DATA, **options):
    return SampledLinear(**{"width": 10, **options}).fit(data, np.random.default_rng(5), None, no_report)


def draws(posterior, q, points=Z):
    with torch.no_grad():
        return torch.stack([function(points) for function in posterior.draw(q, np.random.default_rng(0))])


def test_two_thousand_draws_have_the_mean_and_covariance_of_the_gaussian_process():
    posterior, q = fit(), 2000
    values = draws(posterior, q)
    rows, others = explicit(posterior.process.regression.rows), explicit(posterior.process.kernel.rows(Z))
    solved = torch.linalg.solve(rows @ rows.T + posterior.process.noise * IDENTITY, rows @ others.T)
    covariance = others @ others.T - others @ rows.T @ solved
    mean, variance = posterior.mean_var(Z)
    torch.testing.assert_close(variance, covariance.diagonal())
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), (values - mean).T, upper=False)
    assert white.mean(1).abs().max() < 4 / math.sqrt(q)
    assert (torch.cov(white) - torch.eye(4, dtype=torch.float64)).abs().max() < 4 * math.sqrt(2 / q)


def test_draws_without_perturbed_targets_vary_less_by_the_stated_amount():
    posterior, q = fit(perturb_targets=False), 2000
    rows, others = explicit(posterior.process.regression.rows), explicit(posterior.process.kernel.rows(Z))
    noise = posterior.process.noise
    solved = torch.linalg.solve(rows @ rows.T + noise * IDENTITY, rows @ others.T)
    expected = posterior.mean_var(Z)[1] - noise * solved.square().sum(0)
    ratio = draws(posterior, q).var(0) / expected
    assert (ratio - 1).abs().max() < 4 * math.sqrt(2 / q)
    assert (expected / posterior.mean_var(Z)[1]).min() < 0.9  # the noise is large enough for the difference to be seen


def test_the_closed_form_is_where_long_gradient_descent_ends():
    posterior = fit()
    process = posterior.process
    rows, y = explicit(process.regression.rows), process.y
    start = torch.randn(1, rows.shape[1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    closed = process.regression.draws(y, start, torch.zeros(1, 6, dtype=torch.float64))[0]
    weights = start[0].clone()
    rate = 1 / (torch.linalg.matrix_norm(rows, 2) ** 2 + process.noise)
    for _ in range(20_000):
        weights -= rate * (rows.T @ (rows @ weights - y) + process.noise * (weights - start[0]))
    others = explicit(process.kernel.rows(Z))
    torch.testing.assert_close(others @ closed, others @ weights, rtol=0, atol=1e-5)
    assert (others @ (closed - start[0])).abs().max() > 0.1


def test_beta_is_the_factor_of_a_draws_deviation_and_of_its_standard_deviation():
    plain, doubled = fit(), fit(beta=2.0)
    mean = plain.mean_var(Z)[0]
    torch.testing.assert_close(draws(doubled, 3) - mean, 2 * (draws(plain, 3) - mean))
    torch.testing.assert_close(doubled.mean_var(Z)[1], 4 * plain.mean_var(Z)[1])


def test_many_points_are_drawn_in_blocks_with_the_same_values():
    posterior, points = fit(), torch.tensor(RNG.uniform(-1, 1, (700, 2)))
    torch.testing.assert_close(draws(posterior, 2, points)[:, 300:303], draws(posterior, 2, points[300:303]))


def test_above_n_exact_a_narrow_network_stands_in_and_says_so():
    fallback = fit(width=2000, n_exact=5)
    assert fallback.remarks["fallback"].startswith("random features: 6 trials > n_exact 5; a network of ")
    assert fallback.process.kernel.size <= 2001
    exact = fit(width=2000)
    assert exact.remarks == {}
    assert torch.corrcoef(torch.stack([exact.mean_var(Z)[0], fallback.mean_var(Z)[0]]))[0, 1] > 0.9


def test_trials_that_the_hyper_parameters_were_not_fitted_to_are_remarked():
    many = Observations(np.zeros((1300, 2)), np.arange(1300.0), maximize=False)
    for options, remarks in (({}, {"hyperparameters": "from 512 of 1300 trials"}), ({"hyperparameters": "fixed"}, {})):
        surrogate = SampledLinear(width=10, **options)
        assert surrogate.remarks(many, surrogate.shape(many)) == remarks


def test_fixed_hyper_parameters_are_the_papers_kernel():
    posterior = fit(hyperparameters="fixed", normalised=False, noise=0.3, activation="relu")
    network, theta = posterior.process.kernel.network, posterior.process.kernel.theta
    phi, others = network.features(theta, torch.tensor(X)), network.features(theta, Z)
    solved = torch.linalg.solve(phi @ phi.T + 0.3 * IDENTITY, phi @ others.T)
    torch.testing.assert_close(posterior.mean_var(Z)[0], solved.T @ torch.tensor(DATA.targets))


def test_a_fit_that_needs_too_much_memory_is_refused_before_it_begins():
    many = Observations(np.zeros((4000, 2)), np.arange(4000.0), maximize=False)
    with pytest.raises(ValueError, match=r"4000 trials needs about .* GB and memory_gb is 0.5: raise memory_gb"):
        fit(many, width=500, memory_gb=0.5)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("beta", 0.0, "beta is 0.0: give a positive number"),
        ("width", 0, "width is 0: give 1 or more"),
        ("noise", -1.0, "noise is -1.0: give a positive number"),
        ("b_std", -0.5, "b_std is -0.5: give a number >= 0"),
        ("memory_gb", math.inf, "memory_gb is inf: give a positive number"),
        ("activation", "step", "activation is 'step': choose one of sine, erf, tanh, relu"),
    ],
)
def test_an_option_out_of_range_is_refused(option, value, message):
    with pytest.raises(ValueError, match=message):
        SampledLinear(**{option: value})


def test_a_convolution_without_an_image_is_refused():
    with pytest.raises(ValueError, match="A convolution takes one image and this space has 0: set network to dense"):
        fit(network="convolution")


@pytest.mark.parametrize("count", [0, 2])
def test_without_exactly_one_image_the_network_is_dense_unless_a_convolution_is_asked_for(count):
    images = tuple(ImageColumns(4 * i, (2, 2)) for i in range(count))
    X = np.random.default_rng(5).uniform(-1, 1, (6, 9))
    data = Observations(X, X.sum(axis=1), maximize=False, images=images)
    assert isinstance(SampledLinear().shape(data), Perceptron)
    SampledLinear().require_images(count)
    with pytest.raises(ValueError, match=f"A convolution takes one image and this space has {count}"):
        SampledLinear(network="convolution").require_images(count)


def test_a_convolution_is_not_deep():
    with pytest.raises(ValueError, match="depth is 2 and b_std is 0"):
        SampledLinear(network="convolution", depth=2).require_images(1)


def test_a_process_that_is_kept_is_that_of_its_own_state_bit_for_bit():
    rng, X = np.random.default_rng(5), np.random.default_rng(6).uniform(-1, 1, (12, 2))
    data = Observations(X, np.sin(X[:, 0]), maximize=False)
    surrogate, at = SampledLinear(width=20), torch.tensor(X + 0.01)
    first, second = (surrogate.fit(data, rng, None, no_report) for _ in range(2))
    told = [surrogate.restore(data, posterior.state()).mean_var(at) for posterior in (second, first, first)]
    assert not torch.equal(told[0][0], told[1][0])
    sampled_linear._conditioned.cache_clear()
    for found, again in zip(told[2], surrogate.restore(data, first.state()).mean_var(at), strict=True):
        assert torch.equal(found, again)
