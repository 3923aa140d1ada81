"""The exact Gaussian process beyond mean and variance: leave-one-out, joint and feature draws, limits."""

import numpy as np
import pytest
import torch

from fieldcraft.models.gaussian import inducing
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.gaussian.process import Fit, posterior
from fieldcraft.models.linear.feature_posterior import FeaturePosterior
from fieldcraft.models.linear.fourier_features import FourierFeatures
from fieldcraft.models.linear.linear_model import LinearModel
from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.surrogate import LeaveOneOut, SlopedFunction, no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(21)
X = RNG.uniform(-1, 1, (16, 2))
DATA = Observations(X=X, y=np.sin(3 * X[:, 0]) + X[:, 1] + RNG.normal(0, 0.1, 16), maximize=False, noise_sd=0.1)
Z = torch.tensor(RNG.uniform(-1, 1, (8, 2)))


def fit(data=DATA, **options):
    return ExactGP(**{"restarts": 0, **options}).fit(data, np.random.default_rng(2), None, no_report)


@pytest.fixture(scope="module", params=["fitted", "known"])
def fitted(request):
    return fit(noise=request.param)


def test_leave_one_out_equals_refits_without_each_trial_at_the_same_hyper_parameters(fitted):
    assert isinstance(fitted, LeaveOneOut)
    made, found = fitted.fit, fitted.log_predictive()
    for i in range(len(X)):
        rest = [j for j in range(len(X)) if j != i]
        parts = made.kernel, made.X[rest], made.targets[rest], made.noise, made.parameters, made.metrics
        mean, variance = posterior(Fit(*parts), fitted.scaling, fitted.sampler, {}).mean_var(made.X[i : i + 1])
        normal = torch.distributions.Normal(mean, (variance + fitted.noise_variance).sqrt())
        assert float(found[i]) == pytest.approx(float(normal.log_prob(made.targets[i])), abs=1e-8)


def joint_posterior(fitted, points):
    """Mean (n,) and covariance (n, n) at points, from BoTorch."""
    found = fitted.model.posterior((points + 1) / 2)
    return found.mean[:, 0].detach(), found.distribution.covariance_matrix.detach()


def restored(fitted, **options):
    noise = "fitted" if fitted.fit.noise is None else "known"
    return ExactGP(noise=noise, **options).restore(DATA, fitted.state())


def assert_moments(draws, mean, covariance):
    """Draws (q, n) against a normal distribution, within 5 standard errors."""
    q, sd = len(draws), covariance.diagonal().sqrt()
    assert (((draws.mean(0) - mean) / sd).abs() < 5 / q**0.5).all()
    assert ((torch.cov(draws.mT) - covariance).abs() < 5 * (2 / q) ** 0.5 * sd[:, None] * sd).all()


@pytest.mark.parametrize("options", [{"draw": "joint"}, {"draw": "features", "n_features": 2000}])
def test_draws_have_the_moments_of_the_posterior(fitted, options):
    q = 400 if options["draw"] == "joint" else 200
    with torch.no_grad():
        draws = torch.stack([f(Z) for f in restored(fitted, **options).draw(q, np.random.default_rng(0))])
    assert_moments(draws, *joint_posterior(fitted, Z))


def test_a_joint_draw_is_exact_at_its_skeleton_however_small_that_is(fitted):
    # Without the skeleton's share a draw of one point would be the mean everywhere.
    sampler = restored(fitted, draw="joint", n_skeleton=1)
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=int(np.random.default_rng(4).integers(2**31 - 1)))
    point = 2 * engine.draw(1, dtype=torch.float64) - 1
    mean, variance = fitted.mean_var(point)
    first, second = (f(point) for f in sampler.draw(2, np.random.default_rng(4)))
    rng = np.random.default_rng(4)
    rng.integers(2**31 - 1)
    for found in (first, second):
        expected = mean + variance.sqrt() * float(rng.standard_normal(1)[0])
        size = (found - mean).abs()
        torch.testing.assert_close(size, (expected - mean).abs(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "rbf"])
def test_fourier_features_converge_to_the_kernel(kernel):
    made = fit(kernel=kernel)
    scales = torch.tensor([made.metrics["length_scale_0"], made.metrics["length_scale_1"]])
    exact = made.kernel(Z, Z)
    errors = []
    for m in (100, 10_000):
        rows = FourierFeatures.drawn(kernel, scales, m, np.random.default_rng(1))(Z)
        errors.append(float((rows @ rows.mT - exact).abs().max()))
    assert errors[1] < 0.03
    assert errors[1] < errors[0] / 3


def test_above_n_exact_inducing_points_take_over_say_so_and_are_exact_where_they_are_all_trials():
    exact, made = fit(), fit(n_exact=15)
    assert isinstance(made, FeaturePosterior)
    assert made.remarks == {"fallback": "700 inducing points: 16 trials > n_exact 15"}
    assert exact.remarks == {}
    for one, other in zip(made.mean_var(Z), exact.mean_var(Z), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    torch.testing.assert_close(made.mean(Z), made.mean_var(Z)[0], rtol=0, atol=1e-8)
    torch.testing.assert_close(made.log_predictive(), exact.log_predictive(), rtol=0, atol=1e-3)
    again = ExactGP(n_exact=15).restore(DATA, made.state())
    assert torch.equal(again.mean_var(Z)[0], made.mean_var(Z)[0])


def fitc(posterior, points, trials):
    """Mean and variance by the dense formulas of Snelson and Ghahramani (2006), at the posterior's inducing points."""
    phi, X, y = posterior.features, trials, posterior.y
    cross, own = (covariance("matern52", A, phi.points, phi.scales) for A in (points, X))
    inner = torch.linalg.inv(covariance("matern52", phi.points, phi.points, phi.scales))
    low = own @ inner @ own.mT
    noise = posterior.metrics["noise_sd"] ** 2
    solved = torch.linalg.inv(low + (1 - low.diagonal() + noise).diag())
    shared = cross @ inner @ own.mT
    return posterior.constant + shared @ solved @ y, 1 - (shared @ solved * shared).sum(1)


def test_fewer_inducing_points_than_trials_give_the_published_moments(monkeypatch):
    monkeypatch.setattr(inducing, "INDUCING", 6)
    made = fit(n_exact=15)
    assert len(made.features.points) == 6
    best = DATA.X[np.argsort(DATA.targets)[:3]]
    assert all((made.features.points.numpy() == x).all(1).any() for x in best)
    for one, other in zip(made.mean_var(Z), fitc(made, Z, torch.tensor(DATA.X)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    torch.testing.assert_close(made.mean(Z), made.mean_var(Z)[0], rtol=0, atol=1e-8)
    grown = made.fantasize(Z[:2])
    for one, other in zip(grown.mean_var(Z), fitc(grown, Z, torch.cat([torch.tensor(DATA.X), Z[:2]])), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_above_n_fitted_some_trials_give_the_hyper_parameters_and_all_give_the_posterior():
    made = fit(n_fitted=10)
    assert made.remarks == {"hyperparameters": "from 10 of 16 trials"}
    assert len(made.fit.X) == 16
    assert made.metrics["noise_sd"] != fit().metrics["noise_sd"]
    again = ExactGP(n_fitted=10).restore(DATA, made.state())
    assert again.remarks == made.remarks


def test_a_fit_that_would_need_too_much_memory_is_refused_before_it_begins():
    many = Observations(X=np.zeros((4000, 1)), y=np.zeros(4000), maximize=False)
    with pytest.raises(ValueError, match=r"4000 trials needs about 1\.5 GB and memory_gb is 1: raise memory_gb"):
        fit(many, memory_gb=1.0)
    with pytest.raises(ValueError, match=r"needs about .* GB and memory_gb is 0.05"):
        fit(many, memory_gb=0.05, n_exact=100)


@pytest.mark.parametrize(("option", "least"), [("n_skeleton", 1), ("n_features", 2), ("n_fitted", 1), ("n_exact", 1)])
def test_a_number_below_its_least_is_refused(option, least):
    with pytest.raises(ValueError, match=f"{option} is {least - 1}: give {least} or more"):
        ExactGP(**{option: least - 1})


def test_a_memory_of_nothing_is_refused():
    with pytest.raises(ValueError, match="memory_gb is 0: give a positive number"):
        ExactGP(memory_gb=0)


@pytest.mark.parametrize(("n", "p"), [(6, 9), (9, 6)])
def test_a_linear_model_is_the_same_on_either_side_and_equals_the_formula(n, p):
    rng = np.random.default_rng(3)
    rows, y, noise = torch.tensor(rng.normal(size=(n, p))), torch.tensor(rng.normal(size=n)), 0.3
    model, new = LinearModel.of(rows, noise), torch.tensor(rng.normal(size=(4, p)))
    covariance = torch.linalg.inv(torch.eye(p) + rows.mT @ rows / noise)
    mean = covariance @ rows.mT @ y / noise
    torch.testing.assert_close(model.direction(y), mean, rtol=0, atol=1e-10)
    torch.testing.assert_close(model.variance(new), (new @ covariance @ new.mT).diagonal(), rtol=0, atol=1e-10)
    draws = torch.stack([model.drawn(y, rng) for _ in range(4000)])
    assert_moments(draws, mean, covariance)


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "rbf"])
def test_a_path_has_the_slopes_of_the_graph_and_nearly_the_same_values_at_a_first_look(kernel):
    (path,) = fit(kernel=kernel).draw(1, np.random.default_rng(4))
    assert isinstance(path, SlopedFunction)
    (values, gradients), expected = path.value_and_grad(Z), automatic(path, Z)
    assert expected[1].abs().max() > 0.1
    torch.testing.assert_close(values, expected[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients, expected[1], rtol=1e-10, atol=1e-10)
    found = path.coarse(Z)
    assert found.dtype == torch.float64 and not torch.equal(found, values)
    torch.testing.assert_close(found, values, rtol=0, atol=2e-5)


def test_a_combination_of_features_is_one_cosine_a_frequency():
    phi = FourierFeatures.drawn("matern52", torch.tensor([0.4, 0.9]), 60, np.random.default_rng(1))
    theta = torch.from_numpy(np.random.default_rng(2).standard_normal(60))
    points = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (9, 2)))
    torch.testing.assert_close(phi.combined(theta)(points), phi(points) @ theta, rtol=0, atol=1e-13)
