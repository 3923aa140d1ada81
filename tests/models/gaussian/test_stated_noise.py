"""Standard deviations that single results state, in the exact Gaussian process: against dense formulas."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from fieldcraft.models.constraint_scale import bent
from fieldcraft.models.feasibility.bilog import Bilog
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.gaussian.fit import NOISE, LogPosterior, Stacked, stated_noise
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.incumbent import best_belief
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(5)
N = 14
X = RNG.uniform(-1, 1, (N, 2))
SDS = np.where(np.arange(N) % 2, 0.9, 0.02)[:, None]
Y = 3 + np.sin(3 * X[:, 0]) + X[:, 1] + SDS[:, 0] * RNG.normal(size=N)
POINTS = torch.tensor(RNG.uniform(-1, 1, (6, 2)))
DATA = Observations(X, Y, maximize=True, sds=SDS)


def fitted(data=DATA, **options):
    return ExactGP(**options).fit(data, np.random.default_rng(0), None, no_report)


def dense(posterior, targets, noises, points=POINTS):
    """Mean and variance at points by inverting the whole covariance."""
    fit, scales = posterior.fit, posterior.length_scales
    S = covariance(fit.kernel, fit.X, fit.X, scales) + torch.diag(noises)
    cross = covariance(fit.kernel, points, fit.X, scales)
    inverse = torch.linalg.inv(S)
    mean = posterior.constant + cross @ inverse @ (targets - posterior.constant)
    return mean, 1 - (cross @ inverse * cross).sum(1)


@pytest.mark.parametrize("known", [None, 0.03])
def test_the_log_posterior_is_the_density_with_each_variance_and_its_gradient_the_finite_difference(known):
    w = (SDS[:, 0] / DATA.scaling.sd) ** 2
    density = LogPosterior("matern52", (X + 1) / 2, DATA.targets, known, readings=w)
    theta = np.array([-0.4, 0.3, -3.0])[: 3 if known is None else 2]
    value, gradient = density(theta)
    scales, v = torch.tensor(np.exp(theta[:2])), math.exp(theta[2]) if known is None else known
    S = covariance("matern52", torch.tensor((X + 1) / 2), torch.tensor((X + 1) / 2), scales).numpy() + np.diag(v + w)
    inverse = np.linalg.inv(S)
    constant = (inverse @ DATA.targets).sum() / inverse.sum()
    prior = sum(float(each.log_density(theta[part])[0]) for each, part in density.priors(theta.size))
    assert value == pytest.approx(multivariate_normal(np.full(N, constant), S).logpdf(DATA.targets) + prior, rel=1e-9)
    np.testing.assert_allclose(gradient, approx_fprime(theta, lambda at: density(at)[0], 1e-6), atol=2e-4)
    values, gradients = Stacked.of(density)(np.stack([theta, theta + 0.2]))
    np.testing.assert_allclose(values, [value, density(theta + 0.2)[0]], rtol=1e-10)
    np.testing.assert_allclose(gradients[0], gradient, rtol=1e-8)


def test_the_posterior_is_that_of_the_dense_formula_before_and_after_believed_points():
    posterior = fitted()
    w = torch.tensor((SDS[:, 0] / DATA.scaling.sd) ** 2)
    noises = posterior.base_variance + w
    for own, other in zip(posterior.mean_var(POINTS), dense(posterior, posterior.fit.targets, noises), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-10)
    more = posterior.fantasize(POINTS[:2])
    believed = torch.cat([noises, noises.new_full((2,), posterior.base_variance + float(w.median()))])
    for own, other in zip(more.mean_var(POINTS), dense(more, more.fit.targets, believed), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-10)
    K = covariance("matern52", posterior.fit.X, posterior.fit.X, posterior.length_scales)
    gain = 0.5 * torch.logdet(torch.eye(N, dtype=torch.float64) + K / noises[:, None])
    assert posterior.information_gain() == pytest.approx(float(gain), rel=1e-9)
    mean = posterior.model.posterior((POINTS + 1) / 2).mean[:, 0]  # BoTorch's, on which acquisitions rest
    torch.testing.assert_close(mean, posterior.mean_var(POINTS)[0], rtol=1e-6, atol=1e-7)


def test_a_precise_result_is_believed_and_a_rough_one_is_not():
    posterior = fitted(noise="known")
    missed = (posterior.mean_var(torch.tensor(X))[0].numpy() - DATA.targets) * DATA.scaling.sd
    assert np.abs(missed[::2]).max() < 0.05
    assert np.abs(missed[1::2]).max() > 0.3
    assert posterior.remarks["noise"] == f"stated by {N} of {N} results"


def test_draws_have_the_moments_of_the_posterior():
    posterior = fitted()
    mean, variance = posterior.mean_var(POINTS)
    drawn = torch.stack([draw(POINTS) for draw in posterior.draw(1500, np.random.default_rng(1))])
    assert ((drawn.mean(0) - mean).abs() < 4.5 * (variance / 1500).sqrt() + 0.01).all()
    assert (drawn.var(0) / variance - 1).abs().max() < 0.2


def test_a_restored_posterior_is_the_same_to_the_bit():
    posterior = fitted()
    again = ExactGP().restore(DATA, posterior.state())
    assert all(torch.equal(a, b) for a, b in zip(posterior.mean_var(POINTS), again.mean_var(POINTS), strict=True))


def test_inducing_points_that_are_all_trials_give_the_exact_process():
    exact, induced = fitted(noise="known"), fitted(noise="known", n_exact=5)
    for own, other in zip(induced.mean_var(POINTS), exact.mean_var(POINTS), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)


def test_what_a_result_states_goes_before_what_is_known_of_all():
    some = np.where(np.arange(N)[:, None] < 4, SDS, np.nan)
    data = Observations(X, Y, maximize=True, noise_sd=0.5, sds=some)
    v, w = stated_noise(data, known=True)
    assert v == NOISE.least
    np.testing.assert_allclose(np.sqrt(w) * data.scaling.sd, np.where(np.arange(N) < 4, SDS[:, 0], 0.5))
    v, w = stated_noise(data, known=False)
    assert v is None
    assert not w[4:].any()
    with pytest.raises(ValueError, match="only some of them do"):
        fitted(Observations(X, Y, maximize=True, sds=some), noise="known")


def test_each_part_of_several_outputs_has_its_own_column():
    data = Observations(
        X, Y, maximize=True, constraints=np.c_[Y - 3, Y], sds=np.c_[SDS, np.full_like(SDS, np.nan), SDS]
    )
    np.testing.assert_array_equal(data.objective.sds, SDS)
    assert data.constraint(0).own_variances is None
    np.testing.assert_array_equal(data.constraint(1).sds, SDS)
    np.testing.assert_array_equal(data.objective.first(5).sds, SDS[:5])
    np.testing.assert_array_equal(data.objective.among(np.array([3, 1])).sds, SDS[[3, 1]])
    assert len({each.digest for each in (data, Observations(X, Y, maximize=True, constraints=np.c_[Y - 3, Y]))}) == 2
    none = Observations(X, Y, maximize=True, sds=np.full((N, 1), np.nan))
    assert none.digest == Observations(X, Y, maximize=True).digest


@pytest.mark.parametrize("sds", [SDS[:3], -SDS, np.full((N, 1), np.inf), np.c_[SDS, SDS]])
def test_impossible_standard_deviations_are_refused(sds):
    with pytest.raises(ValueError, match="must have one column for each output, and no negative or infinite value"):
        Observations(X, Y, maximize=True, sds=sds)


def test_the_level_of_improvement_is_lowered_where_results_state_noise():
    posterior = fitted()
    mean, doubt = best_belief(posterior, DATA)
    best = posterior.mean_var(torch.tensor(X))
    assert float(mean) == float(best[0].min())
    assert float(doubt) == pytest.approx(float(best[1][best[0].argmin()].sqrt()))
    assert float(best_belief(posterior, Observations(X, Y, maximize=True))[1]) == 0


def test_the_noise_of_a_bent_constraint_is_that_of_bent_readings():
    bilog, c = Bilog(0.5), np.array([-40.0, -0.3, 0.0, 0.2, 7.0])
    sds = np.array([[1.0], [0.01], [0.01], [0.02], [0.2]])
    data = bent(Observations(np.arange(5.0)[:, None] / 5, c, maximize=False, sds=sds), bilog)
    read = bilog.bent(c + sds[:, 0] * np.random.default_rng(2).standard_normal((40_000, 5)))
    # The standard error of an estimated deviation is 1 / sqrt(2 n) of it; curvature adds less than a hundredth here.
    np.testing.assert_allclose(data.sds[:, 0], read.std(axis=0), rtol=4.5 / math.sqrt(80_000) + 0.01)
    np.testing.assert_allclose(data.y, bilog.bent(c))
