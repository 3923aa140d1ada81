"""Hyper-parameters of several outputs in steps of all of them, against those of each alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations
from fieldcraft.models.tangent.evidence import WideEvidence, hyperparameters
from fieldcraft.models.tangent.evidence_together import Together, hyperparameters_together
from fieldcraft.models.tangent.features import Perceptron

WIDE = Perceptron(2, 300, 1, "sine", 1.7)
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (24, 2))
OUTPUTS = np.stack([np.sin(3 * X[:, 0]), X[:, 0] * X[:, 1], np.exp(X[:, 1]) + 0.3 * RNG.standard_normal(24)])


def observed(n=24, **known):
    return [Observations(X[:n], y[:n], maximize=False, **known) for y in OUTPUTS]


def evidences(noise=None):
    theta = WIDE.initial(torch.Generator().manual_seed(7))
    known = {"groups": np.array([0, 0]), "centre": 0.6, "noise": noise}
    data = observed()
    return [WideEvidence(WIDE, theta, torch.tensor(X), torch.tensor(own.targets), **known) for own in data]


@pytest.mark.parametrize("noise", [None, 0.02])
def test_values_and_slopes_of_several_outputs_are_those_of_each(noise):
    each = evidences(noise)
    v = np.stack([own.middle + shift for own, shift in zip(each, (-0.2, 0.1, 0.4), strict=True)])
    values, slopes = Together(tuple(each))._at(v[[2, 0]], [2, 0])
    for found, slope, i in zip(values, slopes, (2, 0), strict=True):
        value, by = each[i].at(v[i])
        assert found == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(slope, by, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("known", [{}, {"noise_sd": 0.1}])
def test_hyper_parameters_of_several_outputs_are_those_of_each(known):
    data = observed(**known)
    for own, (found, reached) in zip(data, hyperparameters_together(WIDE, data, (0.3, 0.8)), strict=True):
        alone, expected = hyperparameters(WIDE, own, (0.3, 0.8))
        # Both ascents end where a step gains little: a millionth of the density.
        assert reached == pytest.approx(expected, abs=1e-3)
        torch.testing.assert_close(found.scales, alone.scales, rtol=0.02, atol=0.0)
        assert (found.output, found.noise) == pytest.approx((alone.output, alone.noise), rel=0.05)


def test_an_output_is_fitted_the_same_whatever_others_it_is_fitted_with():
    data = observed()
    three, two = (hyperparameters_together(WIDE, some, (0.3, 0.8)) for some in (data, data[1:]))
    torch.testing.assert_close(three[1][0].scales, two[0][0].scales, rtol=1e-6, atol=0.0)


def test_outputs_of_other_networks_and_of_other_trials_are_fitted_one_by_one():
    narrow = replace(WIDE, width=40)
    for network, data in ((narrow, observed()), (WIDE, [*observed(), *observed(12)])):
        for own, (found, reached) in zip(data, hyperparameters_together(network, data, (0.4,)), strict=True):
            alone, expected = hyperparameters(network, own, (0.4,))
            assert torch.equal(found.scales, alone.scales)
            assert reached == expected


def test_outputs_that_are_fitted_to_other_of_many_trials_are_fitted_one_by_one():
    points = np.random.default_rng(5).uniform(-1, 1, (600, 2))
    usual, late = np.sin(3 * points[:, 0]), points[:, 0] * points[:, 1]
    late[-1] = 1e6  # after the last milestone: all 600 trials stand for this output, and 593 for the other
    data = [Observations(points, y, maximize=False) for y in (usual, late)]
    for own, (found, reached) in zip(data, hyperparameters_together(WIDE, data, (0.4,)), strict=True):
        alone, expected = hyperparameters(WIDE, own, (0.4,))
        assert torch.equal(found.scales, alone.scales) and reached == expected
