"""Tangent kernels in many dimensions: what they believe before any data, and what they learn from few results."""

import numpy as np
import pytest
import torch
from scipy.stats import qmc

from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent.features import gram
from fieldcraft.physics.problems.ackley import Ackley
from fieldcraft.physics.problems.speed_reducer import SpeedReducer


class Rugged(SampledLinear):
    """With the shorter of the two length scales before any data."""

    def _centres(self, d, shape):
        return super()._centres(d, shape)[:1]


TRAINED = {"width": 200, "refinements": 10}


def likeness(surrogate, d):
    """Mean correlation of 60 random points of [-1, 1]^d at length scales of which one result says nothing."""
    points = np.random.default_rng(d).uniform(-1, 1, (60, d))
    one = Observations(points[:1], [0.0], maximize=False)
    shape = surrogate.shape(one)
    found = surrogate.fit_kernel(one, shape)[0]
    rows = surrogate.kernel(shape, shape.initial(torch.Generator().manual_seed(1)), found).rows(torch.tensor(points))
    K = gram(rows, rows) - found.constant
    return float((K.sum() - K.trace()) / (60 * 59 * found.output))


@pytest.mark.parametrize("activation", ["sine", "erf", "tanh", "relu"])
def test_random_points_of_a_box_are_as_alike_before_any_data_in_fifty_dimensions_as_in_ten(activation):
    surrogate = Rugged(activation=activation, width=1000)
    ten, fifty = likeness(surrogate, 10), likeness(surrogate, 50)
    assert ten > 0.1
    assert fifty > 0.6 * ten


@pytest.mark.parametrize(
    ("kind", "options"), [(SampledLinear, {"width": 200}), (SampledNetwork, TRAINED), (TangentNetwork, TRAINED)]
)
def test_ten_variables_are_learnt_from_a_hundred_readings(kind, options):
    problem = Ackley(10, -5.0, 5.0)
    X = 2 * qmc.Sobol(10, rng=np.random.default_rng(0)).random(128)[:100] - 1
    seen = Observations(X, problem.exact(5 * X), maximize=False)
    posterior = kind(**options).fit(seen, np.random.default_rng(0), None, no_report)
    Z = np.random.default_rng(1).uniform(-1, 1, (300, 10))
    with torch.no_grad():
        mean, variance = (part.numpy() for part in posterior.mean_var(torch.tensor(Z)))
    targets = seen.scaling.to_target(problem.exact(5 * Z))
    assert np.corrcoef(mean, targets)[0, 1] > 0.8
    assert 0.5 < np.mean((targets - mean) ** 2 / (variance + posterior.process.noise)) < 2.0


def test_a_dozen_readings_foretell_what_is_nearly_linear():
    problem = SpeedReducer(box="authors")
    space = problem.space
    X = space.sample(312, np.random.default_rng(0))
    places = np.array([list(design.values()) for design in space.decode(X)])
    weight = problem.exact(places)
    seen, errors = Observations(X[:12], weight[:12], maximize=False), []
    for surrogate in (SampledLinear(width=200), Rugged(width=200)):
        posterior = surrogate.fit(seen, np.random.default_rng(0), None, no_report)
        with torch.no_grad():
            mean = posterior.mean_var(torch.tensor(X[12:]))[0].numpy()
        errors.append(float(np.sqrt(np.mean((mean - seen.scaling.to_target(weight[12:])) ** 2))))
    assert errors[0] < 0.5 * errors[1]
