"""The process that begins with an earlier campaign, against the joint process of both, and what it gains and loses."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.earlier.fit import Density
from fieldcraft.models.earlier.posterior import earlier_covariance
from fieldcraft.models.gaussian.covariance import covariance
from fieldcraft.models.observations import EarlierResults, Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.warm_gp import WarmGP

RNG = np.random.default_rng(3)
X1, X, Z = RNG.uniform(-1, 1, (14, 2)), RNG.uniform(-1, 1, (7, 2)), RNG.uniform(-1, 1, (40, 2))


def hill(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def near(X):
    return 40 + 7 * hill(X) + 2 * X[:, 0]


def observed(truth=near, X=X, X1=X1, **changes):
    old = EarlierResults("old", X1, hill(X1)[:, None])
    return Observations(X, truth(X), maximize=False, **({"earlier": (old,)} | changes))


def fit(data, surrogate=None):
    return (surrogate or WarmGP()).fit(data, np.random.default_rng(0), None, no_report)


@pytest.fixture(scope="module")
def posterior():
    return fit(observed())


@pytest.mark.parametrize("noise", [None, 0.02])
def test_the_slope_of_the_density_is_that_of_its_differences(posterior, noise):
    points = torch.tensor(X)
    mean, C = posterior.source.mean(points).numpy(), earlier_covariance(posterior.source, points, points).numpy()
    density = Density("matern52", X, observed().targets, mean, C, noise)
    theta = np.array([-0.5, 0.2, -1.0, 0.7, *([] if noise else [-3.0])])
    steps = 1e-6 * np.eye(len(theta))
    differences = [(density(theta + step)[0] - density(theta - step)[0]) / 2e-6 for step in steps]
    assert density(theta)[1] == pytest.approx(differences, rel=1e-6, abs=1e-6)


def test_moments_are_those_of_the_joint_process_of_both_campaigns(posterior):
    """rho f1 + difference, with both campaigns' results as rows of one matrix (Kennedy and O'Hagan, 2000)."""
    found, source = posterior.found, posterior.source
    points, places, old = torch.tensor(Z), torch.tensor(X), torch.tensor(X1)

    def difference(A, B):
        return found.size * covariance("matern52", A, B, torch.tensor(found.scales))

    k, rho = source.kernel, found.rho
    own = k(old, old) + source.noise_variance * torch.eye(len(X1), dtype=torch.float64)
    new = rho**2 * k(places, places) + difference(places, places) + found.noise * torch.eye(len(X), dtype=torch.float64)
    joint = torch.cat([torch.cat([own, rho * k(old, places)], 1), torch.cat([rho * k(places, old), new], 1)])
    cross = torch.cat([rho * k(points, old), rho**2 * k(points, places) + difference(points, places)], 1)
    level = posterior._constant + rho * source.constant
    left = torch.cat([source.fit.targets - source.constant, torch.tensor(observed().targets) - level])
    mean, variance = posterior.mean_var(points)
    assert mean.numpy() == pytest.approx((level + cross @ torch.linalg.solve(joint, left)).numpy(), abs=1e-9)
    explained = (cross * torch.linalg.solve(joint, cross.mT).mT).sum(1)
    assert variance.numpy() == pytest.approx((rho**2 + found.size - explained).numpy(), abs=1e-9)


def test_draws_have_the_moments(posterior):
    posterior = replace(posterior, found=replace(posterior.found, rho=0.7, size=0.5))
    points, n = torch.tensor(1.8 * Z[:6]), 300  # where the earlier campaign has tried little
    with torch.no_grad():
        drawn = torch.stack([f(points) for f in posterior.draw(n, np.random.default_rng(1))])
        mean, variance = posterior.mean_var(points)
    error = (variance / n).sqrt()
    assert ((drawn.mean(0) - mean).abs() < 4.5 * error).all()
    # Fourier features, 1,024 of them, have an error of their own of some 1 / sqrt(1024) of the prior.
    assert ((drawn.var(0) / variance - 1).abs() < 4.5 * math.sqrt(2 / n) + 0.1).all()


def errors(truth, surrogate):
    """Root mean square errors from 8 results, of five draws of designs."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = observed(truth, rng.uniform(-1, 1, (8, 2)), rng.uniform(-1, 1, (25, 2)))
        with torch.no_grad():
            mean, _ = fit(data, surrogate).mean_var(torch.tensor(Z))
        found.append(float(np.sqrt(np.mean((data.scaling.to_physical(mean.numpy()) - truth(Z)) ** 2))))
    return np.array(found)


def test_a_similar_campaign_saves_most_of_the_error_and_an_unrelated_one_adds_little():
    assert (errors(near, WarmGP()) < 0.5 * errors(near, ExactGP(restarts=0))).all()

    def other(X):
        return np.cos(3 * X[:, 1] - 2 * X[:, 0])

    assert errors(other, WarmGP()).mean() < 1.3 * errors(other, ExactGP(restarts=0)).mean()


def test_of_two_earlier_campaigns_the_one_that_predicts_counts():
    useless = EarlierResults("useless", X1, RNG.normal(size=(len(X1), 1)))
    data = observed(earlier=(useless, observed().earlier[0]))
    posterior = fit(data)
    assert posterior.name == "old" and posterior.remarks["earlier"].endswith("standard deviations")
    again = WarmGP().restore(data, posterior.state())
    assert torch.equal(again.mean_var(torch.tensor(Z))[0], posterior.mean_var(torch.tensor(Z))[0])


def test_each_output_learns_from_its_own_earlier_results():
    both = EarlierResults("old", X1, np.stack([hill(X1), X1[:, 0]], axis=1))
    data = observed(constraints=X[:, :1], earlier=(both,))
    assert data.objective.earlier[0].Y[:, 0] == pytest.approx(hill(X1))
    assert data.constraint(0).earlier[0].Y[:, 0] == pytest.approx(X1[:, 0])
    assert data.digest != observed(constraints=X[:, :1], earlier=(both.of_output(0),)).digest


def test_missing_and_impossible_data_are_refused():
    with pytest.raises(ValueError, match="has no earlier one and surrogate warm_gp needs one"):
        fit(observed(earlier=()))
    with pytest.raises(ValueError, match="these observations state none"):
        fit(observed(), WarmGP(noise="known"))
    with pytest.raises(ValueError, match=r"X \(14, 2\) and Y \(3, 1\) do not fit"):
        EarlierResults("old", X1, np.ones((3, 1)))
    with pytest.raises(ValueError, match="leave such a trial out"):
        EarlierResults("old", X1, np.full((14, 1), np.nan))


def test_more_earlier_results_than_an_exact_process_takes_are_refused():
    X1 = np.random.default_rng(1).uniform(-1, 1, (2001, 2))
    with pytest.raises(ValueError, match="An earlier campaign has 2001 results, and warm_gp takes 2000"):
        fit(observed(X1=X1))


def test_known_noise_of_single_results_alone_is_refused_as_such():
    with pytest.raises(ValueError, match="warm_gp does not use that of single ones"):
        fit(observed(sds=np.full((len(X), 1), 0.1)), WarmGP(noise="known"))
