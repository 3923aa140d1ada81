"""Gradients of the moments of one hidden layer, in closed form, against automatic ones and finite differences."""

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.surrogate import SlopedFunction, coarse, no_report, slopes_of
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.models.tangent.posteriors import FirstLook

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (9, 3))
DATA = Observations(X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2], maximize=False, noise_sd=0.05)
POINTS = torch.tensor(np.vstack([RNG.uniform(-1, 1, (4, 3)), X[:1]]))
BELIEVED = torch.tensor(RNG.uniform(-1, 1, (2, 3)))
FIXED = {"hyperparameters": "fixed", "normalised": False}
KINDS = [
    SampledLinear(width=24),
    SampledLinear(width=24, activation="erf", **FIXED),
    TangentNetwork(width=24, nu=0.7),
    TangentNetwork(width=24, activation="tanh", init="gaussian", refinements=3),
    TangentNetwork(width=24, activation="relu", refinements=3, **FIXED),
]


def fitted(surrogate, data=DATA):
    return surrogate.fit(data, np.random.default_rng(5), None, no_report)


@pytest.mark.parametrize("surrogate", KINDS, ids=lambda one: f"{type(one).__name__}-{one.activation}")
def test_moments_and_slopes_are_those_of_the_graph(surrogate):
    for posterior in (fitted(surrogate), fitted(surrogate).fantasize(BELIEVED)):
        found = slopes_of(posterior)(POINTS)
        for k, (values, gradients) in enumerate([(found.mean, found.by_mean), (found.variance, found.by_variance)]):
            expected = automatic(lambda points, k=k, of=posterior: of.mean_var(points)[k], POINTS)
            assert np.abs(expected[1].numpy()).max() > 1e-3
            np.testing.assert_allclose(values, expected[0], rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(gradients, expected[1], rtol=1e-8, atol=1e-9)


def test_slopes_are_those_of_finite_differences():
    slopes, h = slopes_of(fitted(KINDS[2])), 1e-5
    found = slopes(POINTS)
    for i, step in enumerate(h * torch.eye(3, dtype=torch.float64)):
        after, before = slopes(POINTS + step), slopes(POINTS - step)
        np.testing.assert_allclose(found.by_mean[:, i], (after.mean - before.mean) / (2 * h), rtol=1e-6, atol=1e-8)
        rise = (after.variance - before.variance) / (2 * h)
        np.testing.assert_allclose(found.by_variance[:, i], rise, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("surrogate", KINDS[:2], ids=["sine", "erf"])
def test_draws_have_the_slopes_of_the_graph_and_nearly_the_same_values_at_a_first_look(surrogate):
    (draw,) = fitted(surrogate).draw(1, np.random.default_rng(2))
    assert isinstance(draw, SlopedFunction)
    values, gradients = draw.value_and_grad(POINTS)
    expected = automatic(draw, POINTS)
    assert np.abs(expected[1].numpy()).max() > 0.1
    torch.testing.assert_close(values, expected[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(gradients, expected[1], rtol=1e-8, atol=1e-9)
    found = draw.coarse(POINTS)
    assert found.dtype == torch.float64 and not torch.equal(found, values)
    torch.testing.assert_close(found, values, rtol=0, atol=2e-5)


@pytest.mark.parametrize("options", [{"depth": 2}, {"b_std": 0.1}], ids=["depth", "bias"])
def test_draws_of_other_networks_are_left_to_the_graph(options):
    (draw,) = fitted(SampledLinear(width=8, **options)).draw(1, np.random.default_rng(2))
    assert not isinstance(draw, SlopedFunction)


@pytest.mark.parametrize(
    "surrogate",
    [
        TangentNetwork(width=8, depth=2, refinements=1),
        TangentNetwork(width=8, b_std=0.1, refinements=1),
        TangentNetwork(width=8, variance="diagonal", draw="independent", refinements=1),
        TangentNetwork(width=8, init="mirrored", activation="relu", hyperparameters="fixed", refinements=1),
        SampledLinear(width=1),
    ],
    ids=["depth", "bias", "diagonal", "mirrored", "primal"],
)
def test_other_networks_are_left_to_the_graph(surrogate):
    assert slopes_of(fitted(surrogate)) is None


def test_a_first_look_has_the_moments_of_its_limit_alone():
    look = coarse(fitted(SampledLinear(width=256)))
    assert isinstance(look, FirstLook)
    assert slopes_of(look) is None
