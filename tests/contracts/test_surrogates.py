"""The contract of models/surrogate.py, for every file in models/surrogates."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from kinds import generators, is_frozen_dataclass, kinds, public_class

from fieldcraft.models.acquisitions.hypervolume_thompson import HypervolumeThompson
from fieldcraft.models.observations import Aim, EarlierResults, Emulator, LevelResults, Observations, Physics
from fieldcraft.models.pareto.posterior import SeveralObjectives
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import no_report
from fieldcraft.physics.operators import laplace

PACKAGE = "fieldcraft.models.surrogates"
# Settings to test beside or instead of the defaults: those of every engine, small enough to be quick.
SETTINGS = {
    "exact_gp": [
        {},
        {"draw": "joint", "n_skeleton": 64, "restarts": 0},
        {"draw": "features", "restarts": 0},
        {"n_exact": 10, "restarts": 0},
        {"kernel": "chosen", "restarts": 0},
    ],
    "deep_ensemble": [{"networks": 3, "width": 16, "refinements": 20}],
    "neural_greedy": [{"networks": 2, "width": 16, "steps": 20, "refinements": 20}],
    "field_ensemble": [{"members": 8, "width": 8, "refinements": 10}],
    "dngo": [{"width": 20, "depth": 2, "refinements": 30}],
    "random_forest": [{"leaf": 1}],
    "tangent_network": [
        {"width": 30, "refinements": 8},
        {"width": 20, "depth": 2, "init": "gaussian", "steps": 20, "refinements": 4},
        {"width": 40, "n_exact": 10},
    ],
    "sampled_network": [{"networks": 2, "width": 30, "refinements": 8}],
    "sampled_linear": [{"width": 60}, {"width": 40, "hyperparameters": "fixed", "normalised": False}],
    "physics_informed": [
        {"engine": "basis"},
        {"engine": "kernel", "kernel": "matern52"},
        {"engine": "ntk", "width": 16},
        {"engine": "trained", "networks": 2, "width": 12, "depth": 2, "steps": 60},
    ],
}
CASES = [(kind, settings) for kind in kinds(PACKAGE) for settings in SETTINGS.get(kind, [{}])]

RNG = np.random.default_rng(8)
CENTER, HALF = np.array([2.0, 3.0]), np.array([1.5, 2.5])
X = RNG.uniform(-1, 1, (12, 2))
Z = torch.tensor(RNG.uniform(-1, 1, (7, 2)))
POINTS = CENTER + HALF * RNG.uniform(-1, 1, (24, 2))


def harmonic(X):
    """x^2 - y^2 + x y + 50 in physical coordinates: Laplace's equation holds."""
    x, y = (CENTER + HALF * X).T
    return x**2 - y**2 + x * y + 50


def emulator(sign=1):
    """An emulator that misses a part of the truth."""
    return Emulator(lambda X: sign * (harmonic(X) - X[:, 0] * X[:, 1]), lambda: 0.01)


def earlier(sign=1):
    """Results of a campaign that differs by a plane and a factor."""
    places = np.random.default_rng(9).uniform(-1, 1, (15, 2))
    return EarlierResults("old", places, sign * (0.5 * harmonic(places) + places[:, 0])[:, None])


def lower(sign=1):
    """Results of a coarser level that differs by a plane."""
    places = np.random.default_rng(10).uniform(-1, 1, (15, 2))
    return LevelResults(0, 0.1, places, sign * (harmonic(places) + 0.1 * places[:, 0])[:, None])


def snapshots(sign=1):
    """Fields with two modes, whose mean is the truth."""
    along = np.linspace(-1, 1, 30)
    values = harmonic(X)[:, None] + X[:, :1] * along + np.sin(X[:, 1:]) * (along**3 - 0.6 * along)
    digests = tuple(f"{i:064x}" for i in range(len(X)))
    return Snapshots(values[:, None], digests, None, lambda fields, X: sign * fields.mean(axis=2))


def observations(**changes):
    physics = Physics(equation=laplace(2), points=POINTS, center=CENTER, half=HALF)
    known = {"X": X, "y": harmonic(X), "maximize": False, "noise_sd": 0.1, "physics": physics}
    known |= {"emulators": (emulator(),), "snapshots": snapshots(), "earlier": (earlier(),)}
    known |= {"levels": (0.1,), "lower": (lower(),)}
    return Observations(**(known | changes))


DATA = observations()


def fit(surrogate, data=DATA, start=None, report=no_report, seed=5):
    return surrogate.fit(data, np.random.default_rng(seed), start, report)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join([case[0], *map(str, case[1].values())]))
def surrogate(request):
    kind, settings = request.param
    return public_class(PACKAGE, kind)(**settings)


@pytest.fixture(scope="module")
def posterior(surrogate):
    return fit(surrogate)


@dataclass(frozen=True, eq=False)
class Again:
    """A second fit, what it reported on its way, and what it and a draw did to the global generators."""

    posterior: object
    checkpoints: list
    untouched: bool


@pytest.fixture(scope="module")
def again(surrogate):
    checkpoints, before = [], generators()
    made = fit(surrogate, report=lambda step, metrics, checkpoint: checkpoints.append(checkpoint()))
    made.draw(1, np.random.default_rng(0))
    return Again(made, checkpoints, generators() == before)


def assert_equal(one, other):
    for a, b in zip(one.mean_var(Z), other.mean_var(Z), strict=True):
        assert torch.equal(a, b)


def test_a_surrogate_is_one_public_frozen_dataclass(surrogate):
    assert is_frozen_dataclass(type(surrogate))


def test_mean_and_variance_are_finite_float64_of_the_right_shape(posterior):
    mean, variance = posterior.mean_var(Z)
    for values in (mean, variance):
        assert values.shape == (7,)
        assert values.dtype == torch.float64
        assert torch.isfinite(values).all()
    assert (variance >= 0).all()


def test_each_point_is_predicted_by_itself(posterior):
    mean, variance = posterior.mean_var(Z)
    for i in range(len(Z)):
        alone = posterior.mean_var(Z[i : i + 1])
        assert float(alone[0]) == pytest.approx(float(mean[i]), abs=1e-9)
        assert float(alone[1]) == pytest.approx(float(variance[i]), abs=1e-9)


def test_the_least_targets_are_where_the_least_readings_are(posterior):
    mean = posterior.mean_var(torch.tensor(X))[0].detach().numpy()
    assert np.corrcoef(mean, DATA.targets)[0, 1] > 0.8


def test_the_same_seed_gives_the_same_posterior_bit_for_bit(posterior, again):
    assert_equal(posterior, again.posterior)


def test_maximising_is_minimising_the_negative(surrogate, posterior):
    known = {"emulators": (emulator(-1),), "snapshots": snapshots(-1), "earlier": (earlier(-1),)}
    known["lower"] = (lower(-1),)
    other = fit(surrogate, observations(y=-DATA.y, maximize=True, **known))
    for a, b in zip(posterior.mean_var(Z), other.mean_var(Z), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_mean_variance_and_draws_are_differentiable(posterior):
    functions = [lambda x: posterior.mean_var(x)[0], *posterior.draw(1, np.random.default_rng(0))]
    step = torch.tensor([1e-5, -2e-5], dtype=torch.float64)
    for function in functions:
        points = Z.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(function(points).sum(), points)
        with torch.no_grad():
            difference = (function(Z + step) - function(Z - step)) / 2
        torch.testing.assert_close(gradient @ step, difference, rtol=1e-4, atol=1e-8)
    points = Z.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(posterior.mean_var(points)[1].sum(), points)
    assert torch.isfinite(gradient).all()


def test_several_objectives_are_sought_by_its_draws(posterior):
    beliefs = SeveralObjectives((posterior, posterior), (Aim(maximize=False, reference=60.0), Aim(maximize=False)))
    data = observations(aims=beliefs.aims, further=DATA.y[:, None])
    score = HypervolumeThompson().score(beliefs, data, Z[:0], 2, np.random.default_rng(2))
    points = Z.clone().requires_grad_(True)
    for slot in range(2):
        values = score.value(points, slot, Z[:0])
        (gradient,) = torch.autograd.grad(values.sum(), points)
        assert values.shape == (7,) and torch.isfinite(values).all() and torch.isfinite(gradient).all()


def test_draws_are_functions_that_differ_and_repeat_with_the_seed(posterior):
    first = [f(Z) for f in posterior.draw(2, np.random.default_rng(1))]
    again = [f(Z) for f in posterior.draw(2, np.random.default_rng(1))]
    assert [values.shape for values in first] == [(7,), (7,)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(*first)


def test_a_believed_point_keeps_the_mean_and_does_not_raise_the_variance(posterior):
    mean, variance = posterior.mean_var(Z)
    believed = posterior.fantasize(Z[:3])
    after_mean, after_variance = believed.mean_var(Z)
    torch.testing.assert_close(after_mean, mean, rtol=0, atol=1e-6)
    assert (after_variance <= variance + 1e-9).all()
    assert_equal(posterior, posterior.fantasize(Z[:0]))


def test_a_point_that_was_read_may_be_believed_too(posterior):
    """A design that is known in part is out, and is believed in every output."""
    read = torch.tensor(X[:2])
    believed = posterior.fantasize(torch.cat([read, Z[:1]]))
    for points in (read, Z):
        mean, variance = posterior.mean_var(points)
        after_mean, after_variance = believed.mean_var(points)
        torch.testing.assert_close(after_mean, mean, rtol=0, atol=1e-5)
        assert (after_variance <= variance + 1e-9).all() and (after_variance >= 0).all()


def test_state_is_tensors_that_restore_the_posterior_bit_for_bit(surrogate, posterior):
    state = posterior.state()
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for value in state.values())
    restored = surrogate.restore(DATA, {name: value.clone() for name, value in state.items()})
    assert_equal(posterior, restored)
    draws = [p.draw(1, np.random.default_rng(3))[0](Z) for p in (posterior, restored)]
    assert torch.equal(*draws)
    assert dict(restored.metrics) == dict(posterior.metrics)


def test_the_state_of_other_data_is_refused(surrogate, posterior):
    other = observations(y=DATA.y + np.linspace(0, 1, len(DATA)))
    with pytest.raises(ValueError, match=r"restore with the data|fit again"):
        surrogate.restore(other, posterior.state())


def test_metrics_are_finite_numbers_and_the_scaling_is_that_of_the_data(posterior):
    assert posterior.metrics
    assert all(isinstance(value, float) and math.isfinite(value) for value in posterior.metrics.values())
    assert posterior.scaling == DATA.scaling


def test_a_fit_continued_from_any_checkpoint_is_the_uninterrupted_fit(surrogate, posterior, again):
    checkpoints = again.checkpoints
    assert checkpoints
    for step in sorted({0, len(checkpoints) // 2, len(checkpoints) - 1}):
        assert all(isinstance(value, torch.Tensor) for value in checkpoints[step].values())
        assert_equal(posterior, fit(surrogate, start=checkpoints[step]))


def test_fitting_and_drawing_leave_the_global_generators_alone(again):
    assert again.untouched
