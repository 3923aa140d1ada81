"""What modes of a field do not tell of an output: a process that runs without noise know."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import norm
from test_emulated_field import X, Z, data, fit, predicted

from fieldcraft.models.emulation.left_out import Doubt
from fieldcraft.models.emulation.remainder import Remainder
from fieldcraft.models.selection.predictive_score import MOST
from fieldcraft.models.selection.quadratics import Quadratics
from fieldcraft.models.surrogates.emulated_field import EmulatedField

ERRORS = np.random.default_rng(2).standard_normal(len(X))
NUGGET = 1e-6


def correlation(A, B, d=4):
    a = np.sqrt(5) * cdist(A, B) / (0.1 * np.sqrt(d))
    return (1 + a + a**2 / 3) * np.exp(-a)


def by_hand(at, known, errors, shift):
    inverse = np.linalg.inv(correlation(known, known) + NUGGET * np.eye(len(known)))
    cross = correlation(at, known)
    return shift + cross @ inverse @ (errors - shift), 1 - ((cross @ inverse) * cross).sum(1)


def doubted(posterior, points):
    """Share of what no mode represents that is doubted at points (c, d)."""
    variance = posterior.mean_var(points)[1] - replace(posterior, rest=0.0).mean_var(points)[1]
    return variance.numpy() / posterior.rest


def test_it_is_a_process_with_a_mean():
    near = X + 0.1
    mean, left = Remainder(torch.tensor(X), ERRORS).at(near, 0.4)
    expected = by_hand(near, X, ERRORS, 0.4)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
    np.testing.assert_allclose(left, expected[1], rtol=1e-7)
    far, whole = Remainder(torch.tensor(X), ERRORS).at(X + 50.0, 0.4)
    np.testing.assert_allclose(far, 0.4)
    np.testing.assert_allclose(whole, 1.0)


def test_each_run_left_out_is_foreseen_from_the_others():
    points = 0.2 * X
    foreseen, shares = Remainder(torch.tensor(points), ERRORS).left_out(0.4)
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        mean, left = by_hand(points[[i]], points[others], ERRORS[others], 0.4)
        assert foreseen[i] == pytest.approx(mean[0] - 0.4, rel=1e-6)
        assert shares[i] == pytest.approx(left[0] + NUGGET, rel=1e-6)
    assert shares.min() < 0.5


def test_the_doubt_far_from_runs_is_found_where_runs_crowd():
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.2, 0.2, (400, 2))
    root = np.linalg.cholesky(correlation(points, points, 2) + NUGGET * np.eye(400))
    errors = 0.3 * root @ rng.standard_normal(400)
    known = Remainder(torch.tensor(points), errors)
    shift = float(np.median(errors))
    assert known.left_out(shift)[1].max() < 0.1
    # 400 squares of standard normals have a mean of 1 +- 0.07; those left out are correlated.
    certain = Quadratics(np.zeros(400), np.zeros((400, 0)), np.zeros((400, 0)))
    doubt = Doubt.of(errors, certain, remainder=known)
    assert doubt.rest == pytest.approx(0.3**2, rel=0.3)
    mean, share = known.left_out(shift)
    densities = norm.logpdf(errors - shift, mean, 0.3 * np.sqrt(share))
    assert doubt.densities.numpy().mean() == pytest.approx(np.minimum(densities, MOST).mean(), abs=0.1)


def test_results_without_noise_are_believed_where_they_were():
    known = data(exact=True)
    posterior = fit(known, EmulatedField(n_modes=2))  # too few: the fields alone do not give the results back
    np.testing.assert_allclose(predicted(posterior, X)[0], known.y, atol=1e-4 * known.scaling.sd)
    assert doubted(posterior, torch.tensor(X)).max() < 3 * NUGGET
    np.testing.assert_allclose(doubted(posterior, torch.tensor(X + 50.0)), 1.0)
    noisy = fit(data(), EmulatedField(n_modes=2))
    assert noisy.remainder is None
    assert np.abs(predicted(noisy, X)[0] - known.y).max() > 0.02 * known.scaling.sd
    assert (noisy.mean_var(torch.tensor(X))[1] >= noisy.rest).all()


def test_a_believed_design_counts_as_a_run_at_the_mean():
    posterior = fit(data(exact=True), EmulatedField(n_modes=2))
    points = torch.tensor(Z[:3])
    later = posterior.fantasize(points)
    np.testing.assert_allclose(later.mean_var(points)[0], posterior.mean_var(points)[0], atol=1e-5)
    assert doubted(posterior, points).min() > 0.5
    assert doubted(later, points).max() < 3 * NUGGET


def test_a_restored_posterior_knows_the_same_of_its_runs():
    known = data(exact=True)
    posterior = fit(known)
    restored = EmulatedField().restore(known, posterior.state())
    for one, other in zip(predicted(posterior, X), predicted(restored, X), strict=True):
        np.testing.assert_array_equal(one, other)
