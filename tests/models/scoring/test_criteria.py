"""Functions of mean and standard deviation against BoTorch's, and against fifty digits in the far tails."""

import math

import mpmath
import numpy as np
import pytest
import torch
from botorch.acquisition.analytic import (
    LogExpectedImprovement,
    LogProbabilityOfImprovement,
    UpperConfidenceBound,
)
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DiagLinearOperator

from fieldcraft.models.scoring.criteria import LogImprovement, LogProbability, Optimism, evaluated

Z = np.concatenate([-np.logspace(-3, 3.2, 60), np.linspace(-1.1, 6, 30), [-29.9, -30.0, -30.1, -1.0, 0.0]])
LEVEL, SD = 0.7, 0.3
BEST = torch.tensor(LEVEL, dtype=torch.float64)  # BoTorch makes a float a single-precision number


class Plane(Model):
    """A model whose inputs are themselves means and standard deviations."""

    num_outputs = 1
    batch_shape = torch.Size()

    def posterior(self, X, **_):
        return GPyTorchPosterior(MultivariateNormal(X[..., 0], DiagLinearOperator(X[..., 1].square())))


def at(z):
    """Means and standard deviations of these z = (LEVEL - mean) / sd, both varied."""
    sd = SD * (1 + 0.5 * np.sin(np.arange(len(z))))
    return LEVEL - z * sd, sd


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LogImprovement(LEVEL), LogExpectedImprovement(Plane(), best_f=BEST, maximize=False)),
        (LogProbability(LEVEL), LogProbabilityOfImprovement(Plane(), best_f=BEST, maximize=False)),
        (Optimism(1.5), UpperConfidenceBound(Plane(), beta=2.25, maximize=False)),
    ],
    ids=("log_ei", "log_pi", "ucb"),
)
def test_values_and_derivatives_are_botorchs(ours, theirs):
    mean, sd = at(Z[Z > -1e3])
    inputs = torch.tensor(np.stack([mean, sd], axis=1)[:, None], requires_grad=True)
    values = theirs(inputs)
    (slopes,) = torch.autograd.grad(values.sum(), inputs)
    value, by_mean, by_sd = ours(mean, sd)
    np.testing.assert_allclose(value, values.detach(), rtol=1e-12, atol=1e-13)
    # Automatic differentiation of BoTorch's form loses digits in the tail.
    np.testing.assert_allclose(by_mean, slopes[:, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(by_sd, slopes[:, 0, 1], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("z", Z)
def test_log_expected_improvement_keeps_its_digits_in_the_tails(z):
    (mean,), (sd,) = at(np.array([z]))
    with mpmath.workdps(50):
        exact = (mpmath.mpf(LEVEL) - mpmath.mpf(mean)) / mpmath.mpf(sd)
        phi, Phi = mpmath.npdf(exact), mpmath.ncdf(exact)
        h = phi + exact * Phi
        expected = [mpmath.log(h * sd), -Phi / (h * sd), phi / (h * sd)]
    found = LogImprovement(LEVEL)(np.array([mean]), np.array([sd]))
    assert float(found[0][0]) == pytest.approx(float(expected[0]), rel=1e-13, abs=1e-13)
    assert [float(each[0]) for each in found[1:]] == pytest.approx([float(each) for each in expected[1:]], rel=1e-11)


def test_a_criterion_is_differentiable_in_mean_and_standard_deviation():
    mean, sd = (torch.tensor(each, requires_grad=True) for each in at(np.array([-40.0, -3.0, -0.5, 2.0])))
    for criterion in (LogImprovement(LEVEL), LogProbability(LEVEL), Optimism(2.0)):
        assert torch.autograd.gradcheck(lambda m, s, of=criterion: evaluated(of, m, s), (mean, sd))


def test_where_nothing_can_be_gained_values_and_derivatives_stay_finite():
    for criterion in (LogImprovement(0.0), LogProbability(0.0)):
        found = criterion(np.array([1e8, -1e8]), np.array([1e-6, 1e-6]))
        assert all(np.isfinite(each).all() for each in found[:1])
        assert np.isfinite(found[1]).all()
    assert math.isfinite(LogImprovement(0.0)(np.array([1e3]), np.array([1e-6]))[2][0])
