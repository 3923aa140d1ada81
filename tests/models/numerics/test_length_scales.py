"""Priors of length scales: densities with the modes they state, and what a process that has them learns."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad, quad
from scipy.stats import qmc

from fieldcraft.models.numerics.length_scales import encoded_mode, scale_prior
from fieldcraft.models.observations import EarlierResults, LevelResults, Observations
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.field_pod import FieldPod
from fieldcraft.models.surrogates.multilevel_gp import MultilevelGP
from fieldcraft.models.surrogates.warm_gp import WarmGP
from fieldcraft.physics.problems.styblinski_tang import StyblinskiTang


def density(prior, *p):
    return math.exp(float(prior.log_density(np.log(p))[0]))


@pytest.mark.parametrize("which", [lambda both: both, lambda both: both.wide, lambda both: both.narrow])
def test_a_prior_is_a_density_of_the_parameter_itself(which):
    prior = which(scale_prior(1))
    whole = sum(quad(lambda p: density(prior, p), *ends, limit=200)[0] for ends in ((0, 1), (1, 50), (50, np.inf)))
    assert whole == pytest.approx(1.0, abs=1e-6)


def test_either_prior_holds_for_all_parameters_together():
    both = scale_prior(2)
    ends = (1e-3, 6.0)
    found = dblquad(lambda a, b: density(both, a, b), *ends, *ends, epsabs=1e-5)[0]
    each = [
        quad(lambda p, part=part: density(part, p), *ends, epsabs=1e-9)[0] ** 2 for part in (both.wide, both.narrow)
    ]
    share = math.sqrt(3) / (math.sqrt(3) + 0.5)  # of the wide one: odds of the ratio of the spreads, to the power d / 2
    assert found == pytest.approx(share * each[0] + (1 - share) * each[1], abs=1e-4)
    mixed = share * density(both.wide, 0.3, 4.0) + (1 - share) * density(both.narrow, 0.3, 4.0)
    assert density(both, 0.3, 4.0) == pytest.approx(mixed, rel=1e-12)


@pytest.mark.parametrize("d", [1, 12])
def test_both_are_likeliest_at_a_fifth_of_the_boxs_width_times_the_root_of_its_dimension(d):
    both = scale_prior(d)
    here = np.full(d, both.mode)
    for prior in (both, both.wide, both.narrow):
        np.testing.assert_allclose(prior.log_density(here)[1], 0, atol=1e-12)
        assert prior.log_density(here)[0] > max(prior.log_density(here + step)[0] for step in (-0.1, 0.1))
    assert math.exp(both.mode) / math.sqrt(d) == pytest.approx(math.exp(math.sqrt(2) - 3), rel=1e-12)
    assert math.exp(encoded_mode(d)) == pytest.approx(2 * math.exp(both.mode), rel=1e-12)


def test_the_slope_of_either_is_that_of_finite_differences():
    both, step = scale_prior(3), 1e-6
    for log_p in np.random.default_rng(0).normal(0, 1.5, (5, 3)):
        sides = [both.log_density(log_p + e)[0] - both.log_density(log_p - e)[0] for e in step * np.eye(3)]
        np.testing.assert_allclose(both.log_density(log_p)[1], np.array(sides) / (2 * step), rtol=1e-6, atol=1e-6)


def posterior(surrogate, function, d, n, seed):
    X = 2 * qmc.Sobol(d, rng=np.random.default_rng(seed)).random(64)[:n] - 1
    return surrogate.fit(Observations(X, function(X), maximize=False), np.random.default_rng(0), None, no_report)


def errors(found, function, d):
    """Errors in targets at random points, and what was expected of their squares."""
    Z = np.random.default_rng(1).uniform(-1, 1, (300, d))
    with torch.no_grad():
        mean, variance = (part.numpy() for part in found.mean_var(torch.tensor(Z)))
    return found.scaling.to_target(function(Z)) - mean, variance


@pytest.mark.parametrize(("surrogate", "most"), [(ExactGP(), 2.0), (ExactGP(restarts=1), 2.0), (AdditiveGP(), 3.0)])
def test_twenty_trials_of_a_rugged_function_of_ten_variables_do_not_explain_themselves_by_chance(surrogate, most):
    rugged = StyblinskiTang(dimension=10)
    over = []
    for seed in range(4):
        found = posterior(surrogate, lambda X: rugged.exact(5 * X), 10, 20, seed)
        error, variance = errors(found, lambda X: rugged.exact(5 * X), 10)
        over.append(np.mean(error**2) / np.mean(variance))
    assert np.mean(over) < most


def smooth(X):
    weights = np.arange(1.0, 8.0)
    return X @ weights + 0.002 * (X @ weights[::-1]) ** 2


@pytest.mark.parametrize("surrogate", [ExactGP(), ExactGP(restarts=1)])
def test_a_nearly_linear_function_of_seven_variables_is_learnt_from_few_trials(surrogate):
    for n, most in ((25, 0.08), (40, 0.04)):
        error, _ = errors(posterior(surrogate, smooth, 7, n, 0), smooth, 7)
        assert np.sqrt(np.mean(error**2)) < most


def of_the_earlier(data):
    return replace(data.first(6), earlier=(EarlierResults("before", data.X, data.y[:, None]),))


def of_a_level(data):
    return replace(data.first(4), levels=(0.1,), lower=(LevelResults(0, 0.1, data.X, data.y[:, None]),))


def of_a_field(data):
    """A field of one mode, whose coefficient is the result."""
    shape = np.linspace(1.0, 2.0, 9)
    digests = tuple(f"{i:064x}" for i in range(len(data)))
    snapshots = Snapshots(data.y[:, None, None] * shape, digests, None, lambda fields, X: fields[:, 0, :1])
    return replace(data, snapshots=snapshots)


@pytest.mark.parametrize(
    ("surrogate", "taught"), [(WarmGP(), of_the_earlier), (MultilevelGP(), of_a_level), (FieldPod(), of_a_field)]
)
def test_a_nearly_linear_part_of_a_model_is_learnt_from_few_trials_too(surrogate, taught):
    """Its fit begins at longer length scales as well: from the mode alone an ascent ends under the narrow prior."""
    X = 2 * qmc.Sobol(7, rng=np.random.default_rng(0)).random(64)[:25] - 1
    data = taught(Observations(X, smooth(X), maximize=False))
    found = surrogate.fit(data, np.random.default_rng(0), None, no_report)
    error, _ = errors(found, smooth, 7)
    assert np.sqrt(np.mean(error**2)) * found.scaling.sd < 0.08 * smooth(X).std()


def test_either_draws_and_is_bounded_as_the_wide_prior():
    both = scale_prior(4)
    assert (both.location, both.spread, both.least) == (both.wide.location, both.wide.spread, both.wide.least)
