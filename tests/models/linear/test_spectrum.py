"""The evidence of sizes after one decomposition, against the normal density and finite differences."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.linear.spectrum import Spectrum

RNG = np.random.default_rng(6)
X = np.repeat(RNG.uniform(-1, 1, (7, 2)), 2, axis=0)  # points that repeat make it singular
RHO = np.exp(-2 * ((X[:, None] - X) ** 2).sum(axis=2))
Y = RNG.standard_normal(14) + 0.8


@pytest.mark.parametrize(("output", "noise"), [(1.3, 0.02), (0.05, 1.5), (20.0, 1e-4)])
def test_the_likelihood_is_the_normal_density_of_the_stated_covariance(output, noise):
    covariance = torch.tensor(output * RHO + 1 + noise * np.eye(14))
    normal = torch.distributions.MultivariateNormal(torch.zeros(14, dtype=torch.float64), covariance)
    found, _ = Spectrum.of(RHO, Y).log_likelihood(math.log(output), math.log(noise))
    assert found == pytest.approx(float(normal.log_prob(torch.tensor(Y))), rel=1e-9)


def test_its_slopes_are_those_of_finite_differences():
    spectrum, at = Spectrum.of(RHO, Y), np.array([0.3, -3.0])
    _, slope = spectrum.log_likelihood(*at)
    for i, step in enumerate(1e-5 * np.eye(2)):
        ends = [spectrum.log_likelihood(*v)[0] for v in (at + step, at - step)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)
