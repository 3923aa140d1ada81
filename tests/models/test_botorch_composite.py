"""BoTorch's composite improvement on fields that someone can write down: their optimum, slopes, and what it refuses."""

import math

import numpy as np
import pytest
import torch
from botorch.models.higher_order_gp import HigherOrderGP

from fieldcraft.models.observations import Observations
from fieldcraft.models.rivals._botorch import Cube
from fieldcraft.models.rivals.botorch_composite import BotorchComposite, _exact_algebra, _Read
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.physics.space import Continuous, SearchSpace

SPACE = SearchSpace((Continuous("x", 0.0, 4.0, "m"), Continuous("y", -1.0, 1.0)))
PATTERN = np.array([1.0, -2.0, 0.5, 1.5])
BEST = 0.7


def amplitude(X):
    return np.exp(0.5 * X[:, 0]) - 0.4 * X[:, 1]


def runs(X, read=None, maximize=False):
    """Fields a(x) PATTERN of one pattern, whose squared distance to BEST PATTERN is the result."""

    def squared(fields, _):
        return ((fields[:, 0] - BEST * PATTERN) ** 2).sum(axis=1, keepdims=True)

    values = (amplitude(X)[:, None] * PATTERN)[:, None]
    known = Snapshots(values, ("ab" * 32,) * len(X), lambda X: X, read or squared, shape=(2, 2))
    return Observations(X, squared(values, X)[:, 0], maximize=maximize, exact=True, snapshots=known)


def test_two_runs_after_six_find_what_random_ones_find_in_thirty():
    X, rng = SPACE.sample(6, np.random.default_rng(2)), np.random.default_rng(5)
    for _ in range(2):
        X = np.vstack([X, BotorchComposite().suggest(runs(X), np.empty((0, 2)), SPACE, 1, rng)])
    random = runs(SPACE.sample(5000, np.random.default_rng(2))).y
    assert runs(X).y[:6].min() > 0.1 and runs(X).y[6:].min() < 1e-3 and 1 / np.mean(random < 1e-3) > 30


def test_the_objective_of_draws_has_the_slopes_of_the_functional():
    X = SPACE.sample(5, np.random.default_rng(0))
    data = runs(X)
    read = _Read(data.snapshots, Cube(SPACE), 1.0)
    fields = torch.tensor(read.standardised, requires_grad=True)
    assert fields.shape == (5, 2, 2)
    found = read.objective(fields, Cube(SPACE).of(X))
    np.testing.assert_allclose(found.detach().numpy(), -data.y, rtol=1e-12)
    (slopes,) = torch.autograd.grad(found.sum(), fields)
    mean, sd = data.snapshots.values.mean(), data.snapshots.values.std()
    expected = -2 * sd * (sd * fields.detach().numpy().reshape(5, 4) + mean - BEST * PATTERN)
    np.testing.assert_allclose(slopes.numpy().reshape(5, 4), expected, rtol=1e-7)
    many = torch.linspace(0.0, 1.0, 2000).double()[:, None, None, None] * fields.detach()  # more than are read at once
    many.requires_grad_()
    found = read.objective(many, Cube(SPACE).of(X))
    (slopes,) = torch.autograd.grad(found.sum(), many)
    apart = sd * many.detach().numpy().reshape(-1, 4) + mean - BEST * PATTERN
    np.testing.assert_allclose(found.detach().numpy().ravel(), -(apart**2).sum(axis=1), rtol=1e-12)
    expected = -2 * sd * apart
    np.testing.assert_allclose(slopes.numpy().reshape(-1, 4), expected, rtol=1e-7, atol=1e-7)


def test_the_likelihood_by_the_factors_is_that_of_the_whole_matrix():
    data = runs(SPACE.sample(6, np.random.default_rng(0)))
    fields = torch.as_tensor(_Read(data.snapshots, Cube(SPACE), 1.0).standardised)
    torch.manual_seed(0)
    model = HigherOrderGP(Cube(SPACE).of(data.X), fields, latent_init="gp").train()
    prior = model(*model.train_inputs)
    with _exact_algebra():
        found = model.likelihood(prior).log_prob(model.train_targets)
    covariance = prior.covariance_matrix + model.likelihood.noise * torch.eye(24)
    whole = torch.distributions.MultivariateNormal(torch.zeros(24).double(), covariance)
    assert float(found.detach()) == pytest.approx(float(whole.log_prob(model.train_targets).detach()), rel=1e-9)


def test_without_the_fields_of_all_trials_it_says_what_to_do():
    bare = Observations(SPACE.sample(3, np.random.default_rng(0)), [1.0, 2.0, 3.0], maximize=False)
    with pytest.raises(
        ValueError, match=r"learns from the fields of all 3 trials, and one at least has none .*: use an"
    ):
        BotorchComposite().suggest(bare, np.empty((0, 2)), SPACE, 1, np.random.default_rng(0))


def test_a_functional_that_fails_on_draws_is_one_error():
    broken = runs(SPACE.sample(3, np.random.default_rng(0)), lambda fields, _: np.full((len(fields), 1), math.nan))
    with pytest.raises(ValueError, match="drew fields whose output is nan: let the problem's functional give finite"):
        BotorchComposite().suggest(broken, np.empty((0, 2)), SPACE, 1, np.random.default_rng(0))


def test_fields_of_many_cells_are_learnt_on_fewer():
    asked = []
    data = runs(SPACE.sample(3, np.random.default_rng(0)), lambda fields, _: np.full((len(fields), 1), math.nan))
    many = Snapshots(
        np.tile(data.snapshots.values, 40),
        data.snapshots.digests,
        data.snapshots.predict,
        data.snapshots.read,
        shape=(16, 10),
        coarser=lambda most: asked.append(most) or data.snapshots,
    )
    with pytest.raises(ValueError, match="drew fields"):
        broken = Observations(data.X, data.y, maximize=False, snapshots=many)
        BotorchComposite().suggest(broken, np.empty((0, 2)), SPACE, 1, np.random.default_rng(0))
    assert asked == [128]
