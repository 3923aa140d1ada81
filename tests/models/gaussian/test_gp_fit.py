"""The log posterior of a Gaussian process's hyper-parameters, against GPyTorch's, its gradient, and its ascent."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior, Prior

from fieldcraft.models.gaussian.fit import NOISE, Found, LogPosterior, Stacked, together
from fieldcraft.models.gaussian.hyperparameters import around
from fieldcraft.models.gaussian.process import Fit, build
from fieldcraft.models.numerics.length_scales import scale_prior, wide_prior

KERNELS = ("matern12", "matern32", "matern52", "rbf")
NOISES = (None, 0.03)
KNOWN = pytest.mark.parametrize("known", NOISES, ids=("fitted", "known"))
KERNEL = pytest.mark.parametrize("kernel", KERNELS)
RNG = np.random.default_rng(23)
D = 3
X = RNG.uniform(-1, 1, (24, D))
X[-4:] = X[:4]
T = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=24)
T = (T - T.mean()) / T.std(ddof=1)


def density(kernel, known, targets=T):
    return LogPosterior(kernel, (X + 1) / 2, targets, known)


def somewhere(known, rng):
    return np.concatenate([rng.normal(-0.5, 1, D), rng.normal(-4, 1, 1)[: known is None]])


def fit_at(kernel, known, theta, reached=0.0):
    noise = None if known is None else torch.tensor(known, dtype=torch.float64)
    found = Found(np.asarray(theta), reached, np.arange(len(X)))
    return Fit.at(kernel, torch.tensor(X), torch.tensor(T), noise, found)[0]


def constant_at(kernel, known, theta):
    return fit_at(kernel, known, theta).parameters["mean_module.raw_constant"]


def botorch_model(kernel, known, inputs=X, targets=T):
    """With its priors in double precision: BoTorch's are rounded to single, which is seen in the eighth digit."""
    noise = None if known is None else torch.tensor(known, dtype=torch.float64)
    model = build(kernel, torch.tensor(inputs), torch.tensor(targets), noise)
    model.covar_module.register_prior("lengthscale_prior", EitherOfBoth(scale_prior(inputs.shape[1])), "lengthscale")
    if known is None:
        model.likelihood.noise_covar.register_prior("noise_prior", double(NOISE), "noise")
    return model


class EitherOfBoth(Prior):
    """Density of all length scales together, under one prior or the other."""

    arg_constraints: ClassVar = {}

    def __init__(self, prior):
        super().__init__(validate_args=False)
        self.parts = [double(prior.wide), double(prior.narrow)]

    def log_prob(self, x):
        odds = (math.sqrt(3) / 0.5) ** (x.numel() / 2)
        shares = torch.tensor([odds, 1.0], dtype=torch.float64) / (1 + odds)
        return (torch.stack([part.log_prob(x).sum() for part in self.parts]) + shares.log()).logsumexp(0)


def double(prior):
    return LogNormalPrior(*torch.tensor([prior.location, prior.spread], dtype=torch.float64))


def gpytorch_density(model: SingleTaskGP) -> float:
    model.train()
    with torch.no_grad():
        mean = ExactMarginalLogLikelihood(model.likelihood, model)(model(*model.train_inputs), model.train_targets)
    return float(mean) * len(model.train_targets)


@pytest.mark.parametrize("d", [1, 7])
def test_the_wide_prior_is_botorchs_and_the_least_values_those_of_the_model(d):
    model = build("rbf", torch.zeros((3, d), dtype=torch.float64), torch.zeros(3, dtype=torch.float64), None)
    scales, noises = model.covar_module, model.likelihood.noise_covar
    for ours, prior, bound in (
        (wide_prior(d), scales.lengthscale_prior, scales.raw_lengthscale_constraint),
        (NOISE, noises.noise_prior, noises.raw_noise_constraint),
    ):
        numbers = [float(prior.loc), float(prior.scale), float(bound.lower_bound)]
        assert [ours.location, ours.spread, ours.least] == pytest.approx(numbers, rel=1e-6)


@KNOWN
@KERNEL
def test_the_log_posterior_is_gpytorchs_own(kernel, known):
    rng, ours, model = np.random.default_rng(5), density(kernel, known), botorch_model(kernel, known)
    for _ in range(4):
        theta = somewhere(known, rng)
        with torch.no_grad():
            model.covar_module.raw_lengthscale.copy_(torch.tensor(np.exp(theta[:D])))
            model.mean_module.raw_constant.fill_(constant_at(kernel, known, theta))
            if known is None:
                model.likelihood.noise_covar.raw_noise.fill_(math.exp(theta[-1]))
        # GPyTorch keeps the distance of a Matern 1/2 above 1e-15 in the square, by which two equal points differ.
        assert ours(theta)[0] == pytest.approx(gpytorch_density(model), abs=1e-5 if kernel == "matern12" else 1e-8)


@KNOWN
@KERNEL
def test_the_gradient_is_that_of_finite_differences(kernel, known):
    rng, ours, step = np.random.default_rng(6), density(kernel, known), 1e-5
    for _ in range(4):
        theta = somewhere(known, rng)
        differences = [(ours(theta + e)[0] - ours(theta - e)[0]) / (2 * step) for e in step * np.eye(theta.size)]
        np.testing.assert_allclose(ours(theta)[1], differences, rtol=1e-6, atol=1e-6)


@KNOWN
@KERNEL
def test_several_at_once_are_the_same_as_each_alone(kernel, known):
    rng, ours = np.random.default_rng(9), density(kernel, known)
    thetas = np.stack([somewhere(known, rng) for _ in range(4)])
    values, gradients = Stacked.of(ours)(thetas)
    for theta, value, gradient in zip(thetas, values, gradients, strict=True):
        alone = ours(theta)
        assert value == pytest.approx(alone[0], rel=1e-12)
        np.testing.assert_allclose(gradient, alone[1], rtol=1e-9, atol=1e-9)


@KNOWN
@KERNEL
def test_ascents_made_together_end_where_each_alone_does(kernel, known):
    ours = density(kernel, known)
    starts = np.stack(ours.starts(3))
    for start, (reached, theta) in zip(starts, together(ours, starts), strict=True):
        alone, there = ours.maximised(start)
        assert reached == pytest.approx(alone, abs=1e-6)
        assert reached == pytest.approx(ours(theta)[0], abs=1e-9)
        np.testing.assert_allclose(theta, there, atol=1e-3)


def test_of_several_at_once_one_without_a_factor_leaves_the_others_alone():
    singular = density("rbf", 0.0)
    far, near = np.full(D, 8.0), np.full(D, -9.0)
    distinct = LogPosterior("rbf", singular.X[4:], T[4:], 0.0)
    values, _ = Stacked.of(distinct)(np.stack([far, near]))
    assert values[0] == -math.inf and values[1] == pytest.approx(distinct(near)[0], rel=1e-12)
    assert [reached for reached, _ in together(singular, np.stack([far, near]))] == [-math.inf] * 2


@KNOWN
def test_the_constant_is_the_best_one(known):
    theta = somewhere(known, np.random.default_rng(7))
    best, model = constant_at("matern52", known, theta), botorch_model("matern52", known)
    with torch.no_grad():
        model.covar_module.raw_lengthscale.copy_(torch.tensor(np.exp(theta[:D])))
        if known is None:
            model.likelihood.noise_covar.raw_noise.fill_(math.exp(theta[-1]))
    reached = []
    for change in (0.0, -1e-3, 1e-3):
        model.mean_module.raw_constant.data.fill_(best + change)
        reached.append(gpytorch_density(model))
    assert reached[0] > max(reached[1:])


@pytest.mark.parametrize("seed", range(4))
def test_an_ascent_ends_no_lower_than_botorchs(seed):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, (20 + 5 * seed, 1 + seed))
    targets = np.sin(4 * inputs[:, 0]) + 0.1 * seed * rng.normal(size=len(inputs))
    model = botorch_model(KERNELS[seed], None, inputs, targets)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    reached, _ = LogPosterior(KERNELS[seed], (inputs + 1) / 2, targets, None).likeliest(3)
    assert reached >= gpytorch_density(model) - 1e-3


def test_a_fit_stands_at_the_density_it_states():
    reached, theta = density("rbf", None).likeliest(2)
    found = fit_at("rbf", None, theta, reached)
    model = botorch_model("rbf", None)
    model.load_state_dict(dict(found.parameters), strict=False)
    assert found.metrics["log_posterior"] == pytest.approx(gpytorch_density(model), abs=1e-8)


def test_the_noise_keeps_its_least_value():
    inputs = np.linspace(-1, 1, 60)[:, None]
    _, theta = LogPosterior("rbf", inputs, np.sin(4 * inputs[:, 0]), None).likeliest(1)
    assert np.exp(theta[-1]) == pytest.approx(NOISE.least, rel=1e-12)


def test_a_length_scale_keeps_its_least_value():
    inputs, targets = torch.linspace(-1, 1, 81, dtype=torch.float64)[:, None], torch.tensor([1.0, -1.0] * 40 + [1.0])
    start = np.log([0.03])
    alternating = LogPosterior("rbf", (inputs.numpy() + 1) / 2, targets.double().numpy(), 1e-4)
    assert np.exp(alternating.maximised(start)[1]) == pytest.approx(scale_prior(1).least, rel=1e-12)


def test_where_there_is_no_finite_density_an_ascent_is_worth_minus_infinity():
    huge = density("matern52", None, targets=1e200 * T)
    theta = somewhere(None, np.random.default_rng(8))
    assert huge(theta)[0] == huge.maximised(theta)[0] == -math.inf
    singular = density("rbf", 0.0)
    assert singular.maximised(theta[:D])[0] == -math.inf


def test_no_start_with_a_finite_density_is_an_error():
    with pytest.raises(ValueError, match=r"finite likelihood \(3 starts, 24 trials\): look for extreme results"):
        density("matern52", None, targets=1e200 * T).likeliest(3)


@pytest.mark.parametrize("flattest", [1.0, 1e-3])
def test_draws_around_the_likeliest_have_the_moments_of_a_normal_density(flattest):
    """Curvature and axes of a known Hessian; along an axis flatter than the prior, as wide as that."""
    axes, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))
    H = axes @ np.diag([40.0, 6.0, flattest]) @ axes.T
    middle, count = np.array([0.3, -1.0, 2.0]), 20_000

    def normal(theta):
        return -0.5 * (theta - middle) @ H @ (theta - middle), -H @ (theta - middle)

    draws, shares = around(normal, middle, np.ones(3), np.full(3, -np.inf), count)
    np.testing.assert_allclose(draws.mean(axis=0), middle, atol=1e-12)  # pairs on either side
    spread = np.cov((draws - middle) @ axes, rowvar=False)
    np.testing.assert_allclose(np.diag(spread), [1 / 40, 1 / 6, 1.0], rtol=5 * math.sqrt(2 / count))
    if flattest == 1:
        np.testing.assert_allclose(shares, 1 / count, rtol=1e-6)


def test_draws_around_the_likeliest_count_by_the_density_itself():
    """log p of a gamma variable of shape 2: its mean is psi(2), 0.27 below its mode; and none lies below its bound."""
    count, least = 4000, np.full(1, -9.0)
    draws, shares = around(
        lambda t: (float(2 * t[0] - np.exp(t[0])), 2 - np.exp(t)), np.log([2.0]), np.full(1, 3.0), least, count
    )
    sd = math.sqrt(math.pi**2 / 6 - 1)
    assert shares @ draws[:, 0] == pytest.approx(1 - np.euler_gamma, abs=5 * sd / math.sqrt(count))
    bounded, _ = around(lambda t: (float(-t @ t), -2 * t), np.zeros(1), np.ones(1), np.zeros(1), 16)
    assert bounded.min() == 0 and len(bounded) == 16


def test_where_all_draws_are_impossible_the_likeliest_is_believed_alone():
    middle = np.array([0.5, -1.0])

    def point(theta):
        return (0.0 if np.array_equal(theta, middle) else -math.inf), np.zeros(2)

    draws, shares = around(point, middle, np.ones(2), np.full(2, -9.0), 16)
    np.testing.assert_array_equal(draws, [middle])
    np.testing.assert_array_equal(shares, [1.0])
