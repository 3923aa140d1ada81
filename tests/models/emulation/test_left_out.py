"""Results left out one by one, against modes and processes of the other trials alone, and the doubt of their errors."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from fieldcraft.models.emulation.field_modes import coefficient_data, projected, split
from fieldcraft.models.emulation.left_out import Doubt, left_out
from fieldcraft.models.observations import Observations
from fieldcraft.models.selection.quadratics import Quadratics
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (9, 2))
FIELDS = np.sin(np.arange(1, 41) * (0.3 + 0.1 * X[:, :1]))[:, None] * (2 + X[:, 1:, None])
ERRORS = RNG.standard_normal(400)
ERRORS /= ERRORS.std()


def means(fields, X):
    return fields.mean(axis=2)


def learnt(most=3):
    data = Observations(X, means(FIELDS, X)[:, 0], maximize=False)
    _, coefficients = split(FIELDS, most)
    processes = [
        ExactGP(restarts=0).fit(each, np.random.default_rng(0), None, no_report)
        for each in coefficient_data(data, coefficients)
    ]
    return data, Snapshots(FIELDS, ("0" * 64,) * len(X), None, means), processes


def found(data, snapshots, processes):
    rows = (FIELDS - FIELDS.mean(axis=0))[:, 0]
    return left_out(data, snapshots, np.zeros(1), FIELDS, rows @ rows.T, processes)


def doubt_of(errors, variances, **known):
    """The doubt that errors ask for where 0 was foreseen with normal errors of these variances."""
    return Doubt.of(
        errors, Quadratics(np.zeros_like(errors), np.sqrt(variances)[:, None], np.zeros((len(errors), 1))), **known
    )


def by_hand(i, data, processes, part):
    """Mean and variance of the output of trial i in the modes of the trials outside its part."""
    others, rest = np.setdiff1d(np.arange(len(X)), part), np.delete(np.arange(len(X)), i)
    middle = FIELDS[others, 0].mean(axis=0)
    modes = np.linalg.svd(FIELDS[others, 0] - middle, full_matrices=False)[2][: len(processes)]
    coefficients = (FIELDS[:, 0] - middle) @ modes.T
    mean, variance = middle.mean(), 0.0
    for mode, t, process in zip(modes, coefficients.T, processes, strict=True):
        points = process.fit.X
        S = process.kernel(points, points).numpy() + process.noise_variance * np.eye(len(X))
        ones, corner, cross = np.ones(len(rest)), S[np.ix_(rest, rest)], S[rest, i]
        constant = ones @ np.linalg.solve(corner, t[rest]) / (ones @ np.linalg.solve(corner, ones))
        gain = np.linalg.solve(corner, cross)
        mean += (constant + gain @ (t[rest] - constant)) * mode.mean()
        variance += np.var(t[others], ddof=1) * (S[i, i] - gain @ cross) * mode.mean() ** 2
    return data.scaling.to_target(mean), variance / data.scaling.sd**2


@pytest.mark.parametrize("parts", [64, 3])
def test_a_result_left_out_is_that_of_the_modes_and_processes_of_the_others(parts, monkeypatch):
    monkeypatch.setattr("fieldcraft.models.emulation.left_out._PARTS", parts)
    monkeypatch.setattr("fieldcraft.models.emulation.left_out._BLOCK", 2 * 40)
    known = learnt()
    foreseen = found(*known)
    for i in (0, 4, 8):
        part = [i] if parts > len(X) else np.arange(i % parts, len(X), parts)
        expected = by_hand(i, known[0], known[2], part)
        assert foreseen.mean[i] == pytest.approx(expected[0], rel=1e-7)
        assert foreseen.variance[i] == pytest.approx(expected[1], rel=1e-6)


def test_modes_of_large_fields_are_left_out_one_at_a_time():
    fields = np.random.default_rng(1).standard_normal((9, 1, 300_000))
    data, _, processes = learnt()
    snapshots, rows = Snapshots(fields, ("0" * 64,) * 9, None, means), (fields - fields.mean(axis=0))[:, 0]
    tracemalloc.start()
    left_out(data, snapshots, np.zeros(1), fields, rows @ rows.T, processes[:1] * 8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * fields[0].nbytes  # of what moves the field along all modes


def test_what_is_maximised_is_foreseen_the_other_way_round():
    data, snapshots, processes = learnt()
    least, most = found(data, snapshots, processes), found(replace(data, maximize=True), snapshots, processes)
    for name in ("middle", "slopes", "bends"):
        np.testing.assert_allclose(getattr(most, name), -getattr(least, name), atol=1e-12)
    np.testing.assert_allclose(Doubt.of(-data.targets, most).densities, Doubt.of(data.targets, least).densities)


def test_fields_that_are_all_the_same_are_predicted_by_their_mean():
    data, snapshots, _ = learnt()
    foreseen = left_out(data, snapshots, np.zeros(1), np.ones_like(FIELDS), np.zeros((9, 9)), [])
    np.testing.assert_allclose(data.scaling.to_physical(foreseen.mean), 1.0)
    assert (foreseen.variance == 0).all()


def test_where_only_one_field_differs_it_is_foreseen_as_the_others_are():
    data, snapshots, processes = learnt()
    fields = np.repeat(FIELDS[:1], 9, axis=0)
    fields[4] = FIELDS[4]
    rows = (fields - fields.mean(axis=0))[:, 0]
    foreseen = left_out(data, snapshots, np.zeros(1), fields, rows @ rows.T, processes[:1])
    assert data.scaling.to_physical(foreseen.mean)[4] == pytest.approx(FIELDS[0].mean(), rel=1e-9)
    np.testing.assert_allclose(projected(fields, 3)[4], FIELDS[0], atol=1e-9)


@pytest.mark.parametrize("size", [0.003, 0.2])
def test_many_errors_tell_their_mean_and_what_no_variance_states(size):
    stated = np.linspace(0.5, 1.5, 400) * size**2
    doubt = doubt_of(0.3 * size + np.sqrt(stated + size**2) * ERRORS, stated)
    assert doubt.rest == pytest.approx(size**2, rel=0.25)
    assert doubt.shift == pytest.approx(0.3 * size, abs=4 * 1.25 * 1.5 * size / 20)


def test_few_errors_leave_more_room_than_many_of_the_same_size():
    rests = [doubt_of(np.resize([0.1, -0.1], n), np.zeros(n)).rest for n in (4, 8, 200)]
    assert rests[0] > 1.15 * rests[1] > 1.15**2 * rests[2] and rests[2] == pytest.approx(0.01, rel=0.1)


def test_one_result_that_is_far_out_does_not_tell_against_what_is_predicted_of_the_others():
    errors, variances = np.append(0.03 * ERRORS[:19], 4.0), np.append(np.full(19, 0.03**2), 0.5)
    densities = doubt_of(errors, variances).densities.numpy()
    alone = doubt_of(errors[:19], variances[:19]).densities.numpy()
    assert densities[:19].mean() > alone.mean() - 1.5
    assert densities[19] < -3


def test_a_squared_distance_far_out_is_foreseen_as_far_as_its_square_goes():
    """Half of a unit chi-squared variable reaches 8 once in 16,000; N(0.5, 0.5), which has its moments, never does."""
    middle, slopes, bends = np.zeros(20), np.zeros((20, 1)), np.full((20, 1), 0.5)
    targets = np.append(0.5 * RNG.standard_normal(19) ** 2, 8.0)
    squared = Doubt.of(targets, Quadratics(middle, slopes, bends)).densities.numpy()
    normal = Doubt.of(targets, Quadratics(middle + 0.5, slopes + 0.5**0.5, 0 * bends)).densities.numpy()
    assert squared[19] > normal[19] + 5
    assert squared[:19].sum() > normal[:19].sum()


def test_stated_noise_is_no_doubt():
    errors = 0.2 * ERRORS
    assert doubt_of(errors, np.zeros(400), noise=0.04).rest < 0.1 * doubt_of(errors, np.zeros(400)).rest


def test_processes_that_are_too_sure_by_a_factor_are_judged_by_that_factor():
    variances = np.geomspace(1e-4, 0.1, 200)
    errors = 5 * np.sqrt(variances) * ERRORS[:200]
    right = norm.logpdf(errors, 0, 5 * np.sqrt(variances))
    assert doubt_of(errors, variances).densities.numpy().mean() == pytest.approx(right.mean(), abs=0.05)
