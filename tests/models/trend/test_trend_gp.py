"""Process about a polynomial: its algebra against dense forms, what it learns, and when it is taken."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.trend_gp import TrendGP
from fieldcraft.models.trend.evidence import TrendedDensity
from fieldcraft.models.trend.monomials import Monomials
from fieldcraft.models.trend.of_degree import about_polynomial
from fieldcraft.models.trend.process import Kriging, Trended, TrendedPosterior, TrendedValues

SCALES = torch.tensor([0.8, 1.5, 1.1], dtype=torch.float64)


def rng(seed=0):
    return np.random.default_rng(seed)


def points(n, d=3, seed=1):
    return torch.from_numpy(rng(seed).uniform(-1, 1, (n, d)))


def at(degree=2, noise=0.01):
    return Trended(degree, spread=0.7, size=0.3, scales=SCALES, noise=noise)


def kriging(degree=2, n=15, sets=2):
    return Kriging(at(degree), points(n), torch.from_numpy(rng(2).standard_normal((n, sets))), 0.01)


def fit(surrogate, data):
    return surrogate.fit(data, rng(), None, no_report)


def data_of(function, n=30, d=3, seed=1, **further):
    X = points(n, d, seed).numpy()
    return Observations(X, function(X), **{"maximize": False, **further})


def curved(X):
    return 3 + X[:, 0] - 2 * X[:, 1] * X[:, 2] + 0.5 * X[:, 1] ** 2


@pytest.mark.parametrize("degree", [1, 2])
def test_terms_are_those_of_the_polynomial_and_their_gradient_its_slope(degree):
    X, terms = points(4), Monomials(3, degree)
    x, y, z = X.mT
    wanted = [torch.ones(4), x, y, z] + ([x * x, x * y, x * z, y * y, y * z, z * z] if degree == 2 else [])
    torch.testing.assert_close(terms(X), torch.stack([each.to(X) for each in wanted], dim=1))
    weights = torch.from_numpy(rng().standard_normal((4, len(terms))))
    moving = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad((terms(moving) * weights).sum(), moving)
    np.testing.assert_allclose(terms.pulled(X.numpy(), weights.numpy()), slope.numpy(), rtol=1e-12)


@pytest.mark.parametrize("degree", [1, 2])
def test_beliefs_are_those_of_one_process_whose_covariance_is_the_sum(degree):
    beliefs, X = kriging(degree), points(6, seed=5)
    prior = torch.full((len(beliefs.at.terms),), beliefs.at.spread, dtype=torch.float64)
    prior[0] = 1e7  # in place of none

    def k(A, B):
        return 0.3 * covariance("rbf", A, B, SCALES) + (beliefs.at.terms(A) * prior) @ beliefs.at.terms(B).mT

    S = k(beliefs.points, beliefs.points) + 0.01 * torch.eye(15)
    solved = torch.linalg.solve(S, k(beliefs.points, X))
    means, variance = beliefs.moments(X)
    torch.testing.assert_close(means, solved.mT @ beliefs.values, rtol=1e-5, atol=1e-6)
    joint = k(X, X) - k(X, beliefs.points) @ solved
    torch.testing.assert_close(beliefs.covariance(X), joint, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(variance, joint.diagonal(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(beliefs.means(X), means)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("n", [5, 15])
def test_a_value_left_out_is_foretold_as_by_the_beliefs_given_the_others(degree, n):
    beliefs = kriging(degree, n)
    values, (errors, variances) = beliefs.values.numpy(), beliefs.left_out
    for i in range(n):
        others = np.delete(np.arange(n), i)
        given = replace(beliefs, points=beliefs.points[others], values=beliefs.values[others])
        means, variance = given.moments(beliefs.points[[i]])
        np.testing.assert_allclose(values[i] - errors[i] @ values, means[0].numpy(), atol=1e-7)
        assert variances[i] == pytest.approx(float(variance) + 0.01, rel=1e-6)


@pytest.mark.parametrize("degree", [1, 2])
def test_gradients_in_closed_form_are_those_of_the_moments(degree):
    beliefs, X = kriging(degree), points(5, seed=6).requires_grad_()
    means, variance = beliefs.moments(X)
    by_means = [torch.autograd.grad(means[:, k].sum(), X, retain_graph=True)[0] for k in range(2)]
    (by_variance,) = torch.autograd.grad(variance.sum(), X)
    found = beliefs.slopes(X.detach())
    np.testing.assert_allclose(found[0], means.detach().mT, rtol=1e-9)
    np.testing.assert_allclose(found[1], variance.detach(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found[2], torch.stack(by_means), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found[3], by_variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("degree", [1, 2])
def test_the_density_is_that_of_the_normal_and_its_gradient_its_slope(degree, known):
    sds = {"noise_sd": 0.3} if known else {"sds": np.where(np.arange(20)[:, None] % 3 == 0, 0.2, np.nan)}
    data = data_of(curved, 20, **sds)
    density = TrendedDensity.of(data, known, degree)
    theta = np.log(np.array([0.5, 0.9, 1.4, 0.6, 0.2, 0.05]))[: 5 if known else 6]
    value, gradient = density(theta)
    X, beliefs = torch.tensor(data.X), density.kriging(theta)
    terms = beliefs.at.terms(X)[:, 1:]
    S = 0.6 * covariance("rbf", X, X, 2 * torch.tensor([0.5, 0.9, 1.4], dtype=torch.float64)) + 0.2 * terms @ terms.mT
    noises = torch.as_tensor(beliefs.noises).expand(20)
    wide = multivariate_normal(np.zeros(20), (S + noises.diag()).numpy())
    constant = minimize_scalar(lambda c: -wide.logpdf(data.targets - c)).x
    priors = sum(float(prior.log_density(theta[part])[0]) for prior, part in density.priors(len(theta)))
    assert value == pytest.approx(wide.logpdf(data.targets - constant) + priors, rel=1e-9)
    if not known:
        assert noises.tolist()[:2] == pytest.approx([0.05 + (0.2 / data.scaling.sd) ** 2, 0.05])
    steps = 1e-5 * np.eye(len(theta))
    slope = [(density(theta + step)[0] - density(theta - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("function", "named"), [(lambda X: 5 - X @ [1.0, 2.0, 0.1], "linear"), (curved, "quadratic")])
def test_a_polynomial_is_known_to_the_corners(function, named):
    data = data_of(function, 24)
    posterior, corners = fit(TrendGP(), data), 2 * np.indices((2, 2, 2)).reshape(3, -1).T - 1.0
    assert posterior.remarks["kernel"] == f"rbf about a {named} polynomial"
    mean, variance = posterior.mean_var(torch.from_numpy(corners))
    wanted = data.scaling.to_target(function(corners))
    assert np.abs(mean.numpy() - wanted).max() < 5e-3
    assert (np.abs(mean.numpy() - wanted) <= 4 * variance.sqrt().numpy()).all()
    plain = fit(ExactGP(kernel="chosen"), data).mean_var(torch.from_numpy(corners))[0].numpy()
    assert np.abs(plain - wanted).max() > 10 * np.abs(mean.numpy() - wanted).max()


def test_where_a_constant_does_as_well_it_is_exact_gp_bit_for_bit():
    data = data_of(lambda X: np.cos(6 * X).sum(axis=1), 25)
    posterior, own = fit(TrendGP(), data), fit(ExactGP(kernel="chosen"), data)
    assert isinstance(posterior, ExactPosterior)
    assert all(torch.equal(posterior.state()[name], value) for name, value in own.state().items())


@pytest.mark.parametrize("maximize", [False, True])
def test_the_unit_of_results_does_not_matter(maximize):
    X = points(5, seed=8)
    one, other = (
        fit(TrendGP(), data_of(lambda X, a=a, b=b: a + b * curved(X), 24, maximize=maximize))
        for a, b in ((0.0, 1.0), (4e6, 2e5))
    )
    (mean, sd), (further, wide) = (
        (p.scaling.to_physical(p.mean(X).numpy()), p.scaling.sd * p.mean_var(X)[1].sqrt().numpy()) for p in (one, other)
    )
    np.testing.assert_allclose(further, 4e6 + 2e5 * mean, rtol=1e-6)
    np.testing.assert_allclose(wide, 2e5 * sd, rtol=1e-3)


def wavy(X):
    return curved(X) + 0.3 * np.sin(4 * X[:, 0])


def test_a_state_gives_the_same_beliefs_and_belongs_to_its_data():
    data = data_of(wavy, 40)
    posterior = fit(TrendGP(), data)
    assert isinstance(posterior, TrendedPosterior)
    again = TrendGP().restore(data, posterior.state())
    for one, other in zip(posterior.mean_var(points(4)), again.mean_var(points(4)), strict=True):
        assert torch.equal(one, other)
    assert again.metrics == posterior.metrics
    assert again.remarks == posterior.remarks
    with pytest.raises(ValueError, match="restore with the data of the fit, or fit again"):
        TrendGP().restore(data.first(39), posterior.state())


def test_draws_have_the_moments_of_the_posterior():
    posterior, X = fit(TrendGP(), data_of(wavy, 30)), points(3, seed=9)
    drawn = torch.stack([function(X) for function in posterior.draw(600, rng(4))])
    joint = posterior.kriging.covariance(X)
    sd = joint.diagonal().sqrt()
    assert (((drawn.mean(0) - posterior.mean(X)) / sd).abs() < 4 / 600**0.5).all()
    errors = torch.cov(drawn.mT) / torch.outer(sd, sd) - joint / torch.outer(sd, sd)
    assert errors.abs().max() < 5 * (2 / 600) ** 0.5


def test_a_believed_point_leaves_the_mean_and_narrows_the_rest():
    posterior, X, new = fit(TrendGP(), data_of(wavy, 30)), points(6, seed=9), points(2, seed=10)
    believed = posterior.fantasize(new)
    torch.testing.assert_close(believed.mean(X), posterior.mean(X), rtol=1e-6, atol=1e-8)
    assert (believed.mean_var(X)[1] <= posterior.mean_var(X)[1] + 1e-12).all()
    assert (believed.mean_var(new)[1] < 0.6 * posterior.mean_var(new)[1]).all()


def test_values_that_are_drawn_are_passed_through_and_spread_as_the_posterior():
    posterior, P = fit(TrendGP(), data_of(wavy, 30)), points(4, seed=11)
    normals = torch.from_numpy(rng(5).standard_normal((4, 800)))
    drawn = TrendedValues(posterior, P, normals)
    torch.testing.assert_close(drawn.moments(P)[0], drawn.values, atol=1e-3, rtol=1e-3)
    assert (drawn.moments(P)[1] < 1e-4 * posterior.at.size).all()
    sd = posterior.mean_var(P)[1].sqrt()
    assert (((drawn.values.mean(0) - posterior.mean(P)) / sd).abs() < 4 / 800**0.5).all()
    assert ((drawn.values.std(0) / sd - 1).abs() < 4 / 1600**0.5).all()
    # Of all that was read: Var f(x) = E Var(f(x) | v) + Var E(f(x) | v), and E f(x) = E E(f(x) | v).
    drawn = TrendedValues(posterior, posterior.X, torch.from_numpy(rng(5).standard_normal((30, 800))))
    means, variance = drawn.moments(points(3))
    mean, whole = posterior.mean_var(points(3))
    torch.testing.assert_close(means.var(dim=0) + variance, whole, rtol=0.25, atol=1e-9)
    assert ((means.mean(dim=0) - mean).abs() < 4 * means.std(dim=0) / 800**0.5 + 1e-6).all()
    found = drawn.slopes(points(3))
    np.testing.assert_allclose(found[0], means, rtol=1e-8)
    np.testing.assert_allclose(found[1], variance, rtol=1e-6, atol=1e-9)


def test_a_result_that_states_a_large_deviation_counts_for_less():
    X = points(30).numpy()
    y = curved(X)
    y[7] += 5
    sds = np.full((30, 1), np.nan)
    sds[7] = 50.0
    plain, weighed = (fit(TrendGP(), Observations(X, y, False, sds=each)) for each in (np.empty((0, 0)), sds))
    place = torch.from_numpy(X[7:8])
    assert isinstance(weighed, TrendedPosterior)
    assert weighed.scaling.to_physical(weighed.mean(place).numpy())[0] == pytest.approx(curved(X[7:8])[0], abs=0.05)
    assert abs(plain.scaling.to_physical(plain.mean_var(place)[0].numpy())[0] - curved(X[7:8])[0]) > 0.5


def test_between_growths_of_a_tenth_the_parameters_are_those_of_the_last():
    whole = data_of(wavy, 54)
    fifty = Observations(whole.X[:50], whole.y[:50], False)
    before, after = fit(TrendGP(), fifty), fit(TrendGP(), whole)
    ratio, twice = fifty.scaling.sd / whole.scaling.sd, at().rescaled(2.0)
    torch.testing.assert_close(twice.kernel(points(3), points(3)), 4 * at().kernel(points(3), points(3)))
    assert (twice.spread, twice.noise) == (4 * at().spread, 4 * at().noise)
    torch.testing.assert_close(before.at.rescaled(ratio).flat(), after.at.flat())
    assert len(after.X) == 54


def test_a_late_result_that_dwarfs_the_others_is_among_those_that_the_parameters_are_fitted_to():
    usual = data_of(wavy, 54)
    odd = Observations(usual.X, np.where(np.arange(54) == 53, 1e5, usual.y), False)
    posterior = fit(TrendGP(), odd)
    assert isinstance(posterior, TrendedPosterior)
    beyond = np.abs(posterior.mean(posterior.X).numpy() - odd.targets) / np.sqrt(
        posterior.mean_var(posterior.X)[1].numpy() + posterior.at.noise
    )
    assert beyond.max() < 10


@pytest.mark.parametrize(
    ("learn", "trial"), [(partial(fit, TrendGP()), 31), (lambda data: about_polynomial(data, 1), 30)]
)
def test_of_many_results_one_that_dwarfs_the_others_is_asked_whichever_it_is(learn, trial):
    usual = data_of(wavy, 300)
    odd = Observations(usual.X, np.where(np.arange(300) == trial, 1e5, usual.y), False)
    posterior = learn(odd)
    mean, variance = posterior.mean_var(points(100, seed=9))
    beyond = posterior.scaling.to_physical(mean.numpy()) - wavy(points(100, seed=9).numpy())
    assert np.quantile(np.abs(beyond) / (odd.scaling.sd * variance.sqrt().numpy()), 0.9) < 3


@pytest.mark.parametrize("n", [8, 10])
def test_few_results_of_many_coordinates_can_be_fitted(n):
    posterior = fit(TrendGP(), data_of(partial(np.sum, axis=1), n, d=12))
    mean, variance = posterior.mean_var(points(5, 12))
    assert torch.isfinite(mean).all()
    assert (variance > 0).all()


def test_noise_that_must_be_known_is_asked_for_or_taken_as_stated():
    with pytest.raises(ValueError, match='noise is "known" but these observations state none'):
        fit(TrendGP(noise="known"), data_of(curved, 30))
    data = data_of(lambda X: curved(X) + 0.2 * rng(6).standard_normal(len(X)), 40, noise_sd=0.2)
    posterior = fit(TrendGP(noise="known"), data)
    assert isinstance(posterior, TrendedPosterior)
    assert posterior.at.noise == pytest.approx((0.2 / data.scaling.sd) ** 2)


def test_a_fit_that_needs_more_memory_than_allowed_is_refused():
    with pytest.raises(ValueError, match="memory_gb"):
        fit(TrendGP(memory_gb=1e-6), data_of(curved, 30))


def test_an_option_out_of_range_is_refused_at_once():
    with pytest.raises(ValueError, match="restarts is -1"):
        TrendGP(restarts=-1)
