"""The improvement of what is read from an uncertain field: against draws of its coefficients and closed forms."""

import math
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import norm
from test_field_pod import SHAPES, X, Z, data, fit, misfit

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.composite.sampled import sampler_of
from fieldcraft.models.gaussian.exact_results import through_results
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.composite import SampledScore
from fieldcraft.models.scoring.gradients import with_gradients
from fieldcraft.models.surrogates.auto import Auto
from fieldcraft.models.surrogates.exact_gp import ExactGP

NONE = torch.empty(0, 3, dtype=torch.float64)
AT = torch.tensor(Z[:40])
FEW = data(X=X[:6])


def score_of(posterior, known):
    return LogEI().score(posterior, known, NONE, 1, np.random.default_rng(0))


def drawn(posterior, level, n=40_000):
    """Mean improvement on a level of the misfits of fields whose coefficients are drawn, in targets, with its error."""
    rng = np.random.default_rng(1)
    mean, sd = posterior.basis.coefficients(AT.numpy())
    gains = np.empty((n, len(AT)))
    for i in range(len(AT)):
        fields = posterior.basis.fields(np.zeros((1, 80)), mean[i] + sd[i] * rng.standard_normal((n, mean.shape[1])))
        targets = posterior.scaling.to_target(misfit(fields, None)[:, 0])
        rest = math.sqrt(posterior.rest) * rng.standard_normal(n)
        gains[:, i] = np.maximum(level - targets - posterior.shift - rest, 0)
    return gains.mean(axis=0), gains.std(axis=0) / math.sqrt(n)


def normal_values(sampler, n=40_000):
    return torch.from_numpy(np.random.default_rng(2).standard_normal((n, sampler.variables)))


def test_the_improvement_is_that_of_draws_of_the_coefficients():
    posterior = fit(FEW)
    sampler = sampler_of(posterior)
    for level in (-0.3, 0.0, 0.5):
        expected, error = drawn(posterior, level)
        gains = (level - sampler.at(AT, normal_values(sampler))[0]).clamp_min(0).numpy()
        own = gains.std(axis=0) / math.sqrt(len(gains))
        assert (expected > 1e-2).any()
        # Modes at right angles on 80 cells: J is a sum of quadratic functions of the coefficients up to rounding.
        assert (np.abs(gains.mean(axis=0) - expected) <= 4.5 * np.hypot(own, error) + 1e-9).all()


def test_the_score_is_the_logarithm_of_the_mean_improvement_of_its_values():
    score = replace(score_of(fit(FEW), FEW), level=lambda _: 0.0)
    gains = (0.0 - score.values(score.beliefs, AT)).clamp_min(0).mean(dim=0)
    often = gains > 1e-3
    assert often.sum() > 5
    torch.testing.assert_close(score.value(AT, 0, NONE).exp()[often], gains[often], rtol=1e-4, atol=0)


def test_values_have_the_moments_of_the_posterior():
    posterior = fit(FEW)
    sampler = sampler_of(posterior)
    base = normal_values(sampler)
    values = sampler.at(AT, base)[0]
    mean, variance = posterior.mean_var(AT)
    for found, expected in zip(sampler.at(AT, base)[1:], (mean, variance), strict=True):
        torch.testing.assert_close(found, expected)
    error = (variance / len(base)).sqrt()
    assert ((values.mean(dim=0) - mean).abs() < 4.5 * error).all()
    # A quadratic function has a kurtosis of at most 15, so that its sample variance errs by sqrt(14 / n) at most.
    assert ((values.var(dim=0) / variance - 1).abs() < 4.5 * math.sqrt(14 / len(base))).all()


def test_a_misfit_does_not_promise_to_fall_below_zero():
    """Where a normal target of the same moments would."""

    def bent(X):
        g = np.sin(3 * X) + 0.4 * X[:, [1, 2, 0]]
        return (2.0 + g @ SHAPES)[:, None]

    posterior, at = fit(data(bent, X[:9])), torch.tensor(Z)
    at_zero = float(posterior.scaling.to_target(np.zeros(1))[0]) + posterior.shift
    sampler = sampler_of(posterior)
    values = sampler.at(at, normal_values(sampler))[0]
    below = (values < at_zero - 4 * math.sqrt(posterior.rest)).double().mean(dim=0)
    mean, variance = (each.numpy() for each in posterior.mean_var(at))
    normal = norm.cdf((at_zero - 4 * math.sqrt(posterior.rest) - mean) / np.sqrt(variance))
    assert below.max() < 1e-3 and normal.max() > 0.02


def test_gradients_are_differences():
    known = replace(FEW, exact=True)
    score = replace(score_of(through_results(fit(known), known), known), level=lambda _: 0.0)
    values, gradients = with_gradients(score, AT, 0, NONE)
    step = 1e-4
    for i in range(3):
        move = step * torch.eye(3, dtype=torch.float64)[i]
        differences = (score.value(AT + move, 0, NONE) - score.value(AT - move, 0, NONE)) / (2 * step)
        some = values > math.log(1e-2)
        assert some.sum() > 5
        # The slopes are to one side: off by the second derivative times half of a step of 1e-4.
        torch.testing.assert_close(gradients[some, i], differences[some], rtol=1e-2, atol=5e-3)


def test_a_design_that_was_read_promises_nothing():
    known = replace(FEW, exact=True)
    score = score_of(through_results(fit(known), known), known)
    assert float(score.value(torch.tensor(known.X), 0, NONE).max()) < math.log(1e-5)
    assert float(score_of(fit(FEW), FEW).value(torch.tensor(known.X), 0, NONE).max()) > math.log(1e-3)


def test_what_passes_through_results_keeps_its_moments():
    known = replace(FEW, exact=True)
    posterior = through_results(fit(known), known)
    near = torch.tensor(known.X[:6] + 0.01)
    sampler = sampler_of(posterior)
    values = sampler.at(near, normal_values(sampler))[0]
    mean, variance = posterior.mean_var(near)
    assert ((values.mean(dim=0) - mean).abs() < 4.5 * (variance / 40_000).sqrt()).all()
    assert ((values.var(dim=0) / variance - 1).abs() < 4.5 * math.sqrt(14 / 40_000)).all()


def test_who_scores_by_values_and_who_by_moments():
    known = FEW
    assert isinstance(score_of(fit(known, Auto(candidates=("field_pod",))), known), SampledScore)
    assert isinstance(score_of(fit(known, ExactGP()), known), AnalyticScore)
    assert sampler_of(through_results(fit(known, ExactGP()), known)) is None
