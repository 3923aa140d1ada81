"""Posteriors asked together: the moments and slopes of each asked alone, whatever their forms."""

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisition import ViolationScore
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior
from fieldcraft.models.maximizers._batch_slot import BatchSlot
from fieldcraft.models.numerics.batching import Stackable, jointly, jointly_sloped
from fieldcraft.models.observations import ImageColumns, Observations
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.surrogate import coarse, no_report, slopes_of
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.models.surrogates.sampled_network import SampledNetwork
from fieldcraft.models.surrogates.tangent_network import TangentNetwork
from fieldcraft.physics.space import Continuous, SearchSpace

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (9, 2))
Z = torch.tensor(RNG.uniform(-1, 1, (7, 2)))
READINGS = (np.sin(3 * X[:, 0]), 40 * X[:, 1] ** 2 - 7, X.sum(1) + 0.1 * RNG.normal(size=9))
NARROW = TangentNetwork(width=12, refinements=2)
SQUARE = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
RAW = {"hyperparameters": "fixed", "normalised": False, "activation": "relu", "noise": 1.0, "init": "mirrored"}
SHAPES = {
    "antisymmetric": {"width": 40, "refinements": 4},
    "deep with bias": {
        "width": 9,
        "depth": 2,
        "b_std": 0.3,
        "activation": "tanh",
        "init": "gaussian",
        "refinements": 4,
    },
    "diagonal": {"width": 12, "activation": "relu", "variance": "diagonal", "nu": 1.7, "refinements": 4},
    "primal": {"width": 2, "init": "zero_last_layer", "refinements": 4},
    "mirrored": {**RAW, "width": 12, "depth": 2, "train": "one_pass", "rate": 0.05},
}


def fitted(surrogate, y, x=X, seed=0, **told):
    return surrogate.fit(Observations(x, y, maximize=False, **told), np.random.default_rng(seed), None, no_report)


def alone(posteriors):
    def moments(at):
        return tuple(torch.stack(each) for each in zip(*(own.mean_var(at) for own in posteriors), strict=True))

    return moments


def slopes(moments, at):
    """Gradients (c, n, d) of the means and of the variances."""
    at = at.clone().requires_grad_()
    values = [each for rows in moments(at) for each in rows.sum(1)]
    return torch.stack([torch.autograd.grad(each, at, retain_graph=True)[0] for each in values])


def assert_the_same(posteriors, at=Z):
    together = jointly(posteriors)
    for found, expected in zip(together(at), alone(posteriors)(at), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(slopes(together, at), slopes(alone(posteriors), at), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_networks_asked_together_say_what_each_says_alone(shape):
    posteriors = [fitted(TangentNetwork(**shape), y, seed=i) for i, y in enumerate(READINGS)]
    assert len({own.form for own in posteriors}) == 1
    assert_the_same(posteriors)
    assert_the_same([own.fantasize(Z[:2]) for own in posteriors])


def test_above_fifty_trials_their_constants_differ_and_many_points_go_by_blocks():
    x = RNG.uniform(-1, 1, (53, 2))
    readings = [np.concatenate([y, 5 * i * RNG.normal(size=3)]) for i, y in enumerate((x[:50, 0], x[:50, 1] ** 2))]
    posteriors = [fitted(TangentNetwork(width=20, refinements=2), y, x) for y in readings]
    assert posteriors[0].process.kernel.constant != posteriors[1].process.kernel.constant
    assert_the_same(posteriors, torch.tensor(RNG.uniform(-1, 1, (500, 2))))


def test_images_are_asked_together():
    x = RNG.uniform(-1, 1, (6, 7))
    image = {"images": (ImageColumns(2, (2, 2)),)}
    net = TangentNetwork(width=5, channels=3, refinements=2)
    assert_the_same([fitted(net, y[:6], x, **image) for y in READINGS], torch.tensor(RNG.uniform(-1, 1, (4, 7))))


def test_posteriors_of_different_forms_keep_their_order():
    wide, narrow = TangentNetwork(width=30, refinements=2), NARROW
    gp, drawn = ExactGP(restarts=0), SampledNetwork(width=12, refinements=2)
    surrogates = [wide, gp, narrow, wide, drawn, narrow, gp, drawn]
    posteriors = [fitted(own, READINGS[i % 3], seed=i) for i, own in enumerate(surrogates)]
    assert len({own.form for own in posteriors if isinstance(own, Stackable)}) == 3
    assert_the_same(posteriors)


def test_first_looks_asked_together_say_what_each_says_alone():
    wide = TangentNetwork(width=256, nu=0.7, refinements=1)
    looks = [coarse(fitted(wide, y, seed=i)) for i, y in enumerate(READINGS)]
    assert len({own.form for own in looks}) == 1 and len({float(own.limit.sizes[0]) for own in looks}) == 3
    assert_the_same(looks, torch.tensor(RNG.uniform(-1, 1, (300, 2))))


SLOPED = (
    NARROW,
    SampledLinear(width=12),
    ExactGP(restarts=0),
    TangentNetwork(width=12, nu=0.7, refinements=2),
    SampledLinear(width=12),
    TangentNetwork(width=9, activation="tanh", init="gaussian", hyperparameters="fixed", normalised=False),
)


def test_moments_with_their_slopes_asked_together_are_those_asked_alone():
    for many in (SLOPED, (NARROW,) * 3, (SLOPED[-1],) * 2, SLOPED[2:3]):
        posteriors = [fitted(own, READINGS[i % 3], seed=i) for i, own in enumerate(many)]
        for each in (posteriors, [own.fantasize(Z[:2]) for own in posteriors]):
            together, apart = jointly_sloped(each)(Z), [slopes_of(own)(Z) for own in each]
            for name in ("mean", "variance", "by_mean", "by_variance"):
                expected = np.stack([getattr(own, name) for own in apart])
                assert np.abs(expected).max() > 1e-3
                np.testing.assert_allclose(getattr(together, name), expected, rtol=1e-11, atol=1e-13)


def test_slopes_are_not_asked_together_where_one_does_not_know_its_own():
    deep = fitted(TangentNetwork(width=8, depth=2, refinements=1), READINGS[0])
    assert jointly_sloped([fitted(NARROW, READINGS[0]), deep]) is None
    assert jointly_sloped([]) is None


def test_a_network_that_a_linear_model_stands_in_for_is_asked_alone():
    trained, untrained = (fitted(TangentNetwork(width=12, refinements=2, n_exact=n), READINGS[0]) for n in (5000, 8))
    assert trained.form is not None and untrained.form is None
    assert_the_same([untrained, trained, untrained, trained])


def test_the_violation_and_its_slopes_are_those_of_the_bounds_of_constraints_asked_alone():
    data = Observations(X, READINGS[0], maximize=False, constraints=np.stack(READINGS, 1) + 50.0)
    posteriors = tuple(fitted(NARROW, data.constraints[:, k]) for k in range(3))
    score = Bound(beta=2.25).constrained(
        None, "log", ConstrainedPosterior(posteriors[0], posteriors, None, {}), data, Z[:0], 0
    )
    mean, variance = alone(posteriors)(Z)
    zeros = torch.tensor([[float(own.scaling.to_target(0.0))] for own in posteriors], dtype=torch.float64)
    lower = (mean - zeros - 1.5 * variance.sqrt()).T
    assert isinstance(score, ViolationScore) and (lower > 0).all()
    torch.testing.assert_close(score.value(Z, 0, Z[:0]), -lower.sum(1), rtol=1e-9, atol=0)
    room = BatchSlot(score, 0, Z[:0], SQUARE, np.empty((0, 2))).room(score.violations)
    x, step = Z[0].numpy(), 1e-6
    left, slope = room(x)
    np.testing.assert_allclose(left, -lower[0], rtol=1e-9)
    for j, e in enumerate(np.eye(2)):
        np.testing.assert_allclose(slope[:, j], (room(x + step * e)[0] - room(x - step * e)[0]) / (2 * step), atol=1e-5)
