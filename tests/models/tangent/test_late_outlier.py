"""A result far out that comes between two fits of the hyper-parameters: it must not make the others impossible."""

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.additive_gp import AdditiveGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.tangent_network import TangentNetwork

RNG = np.random.default_rng(5)
X, Z = RNG.uniform(-1, 1, (56, 2)), RNG.uniform(-1, 1, (100, 2))
MANY = RNG.uniform(-1, 1, (700, 2))


def truth(X):
    return X[:, 0] ** 2 - X[:, 1] + 3


def misses(surrogate, far, X=X, trial=-1):
    """Errors in stated standard deviations, had a trial's result been so far out."""
    y = truth(X)
    y[trial] = far
    posterior = surrogate.fit(Observations(X, y, maximize=False), np.random.default_rng(0), None, no_report)
    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.tensor(Z))
    sd = posterior.scaling.sd * variance.sqrt().numpy()
    return np.abs(posterior.scaling.to_physical(mean.numpy()) - truth(Z)) / sd


SURROGATES = pytest.mark.parametrize(
    "surrogate",
    [SampledLinear(width=40), TangentNetwork(width=30, refinements=4), AdditiveGP(restarts=0)],
    ids=["sampled_linear", "tangent_network", "additive_gp"],
)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e200])
@SURROGATES
def test_the_other_results_remain_within_what_is_stated(surrogate, far):
    assert np.quantile(misses(surrogate, far), 0.9) < 3


@pytest.mark.parametrize("trial", [7, 405])
@SURROGATES
def test_the_other_results_remain_within_what_is_stated_whichever_of_many_is_far_out(surrogate, trial):
    assert np.quantile(misses(surrogate, 1e6, MANY, trial), 0.9) < 3
