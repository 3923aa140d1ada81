"""Results that come out the same again: beliefs pass through them, and no design is asked for twice."""

import numpy as np
import pytest
import torch
from scipy.stats import qmc

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.acquisitions.thompson import Thompson
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.gaussian.exact_results import REACH, PosteriorThroughResults, through_results
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.sampled_linear import SampledLinear
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.space import Categorical, Integer, SearchSpace

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (9, 2))
DATA = Observations(X, np.sign(X[:, 0]) + 0.3 * X[:, 1], maximize=False, exact=True)
BELIEFS = ExactGP(restarts=0).fit(DATA, np.random.default_rng(0), None, no_report)
LED = through_results(BELIEFS, DATA)
NONE = np.empty((0, 2))


def test_beliefs_pass_through_the_readings_and_are_certain_there():
    mean, variance = LED.mean_var(torch.tensor(X))
    assert BELIEFS.mean_var(torch.tensor(X))[1].min() > 1e-4
    np.testing.assert_allclose(mean, DATA.targets, atol=1e-6)
    np.testing.assert_allclose(variance, 1e-10, rtol=1e-6)  # as little as is told


def test_beyond_the_reach_of_a_reading_they_are_what_they_were():
    far = torch.tensor(X[:1] + np.array([8 * REACH * np.sqrt(2), 0.0]))
    for led, own in zip(LED.mean_var(far), BELIEFS.mean_var(far), strict=True):
        torch.testing.assert_close(led, own, rtol=0, atol=1e-9)


def test_near_one_reading_mean_and_variance_are_the_stated_ones():
    x, z = torch.tensor(X[:1]), torch.tensor(X[:1] + np.array([0.01, -0.004]))
    k = np.exp(-(0.01**2 + 0.004**2) / (4 * REACH**2))
    (here, doubt), (there, around) = BELIEFS.mean_var(x), BELIEFS.mean_var(z)
    mean, variance = LED.mean_var(z)
    assert float(mean) == pytest.approx(float(there) + k * (DATA.targets[0] - float(here)), abs=1e-6)
    assert float(variance) == pytest.approx(float(around) - float(doubt) * (1 - (1 - k) ** 2), abs=1e-9)


def test_the_gradient_is_finite_at_a_reading_and_that_of_finite_differences_beside_it():
    point = torch.tensor(np.vstack([X[0], X[0] + 0.005]), requires_grad=True)
    (slope,) = torch.autograd.grad(LED.mean_var(point)[0].sum(), point)
    assert torch.isfinite(slope).all()
    step = torch.tensor([[1e-6, 0.0]], dtype=torch.float64)
    beside = point[1:].detach()
    there = float(LED.mean_var(beside + step)[0] - LED.mean_var(beside - step)[0]) / 2e-6
    assert float(slope[1, 0]) == pytest.approx(there, rel=1e-5)


def test_drawn_functions_pass_through_the_readings():
    for function in LED.draw(3, np.random.default_rng(1)):
        np.testing.assert_allclose(function(torch.tensor(X)), DATA.targets, atol=1e-6)


def test_points_that_are_believed_leave_the_readings_as_they_are():
    believed = LED.fantasize(torch.tensor([[0.2, 0.2]], dtype=torch.float64))
    assert isinstance(believed, PosteriorThroughResults)
    np.testing.assert_allclose(believed.mean_var(torch.tensor(X))[0], DATA.targets, atol=1e-6)
    assert float(believed.mean_var(torch.tensor([[0.2, 0.2]], dtype=torch.float64))[1]) < float(
        LED.mean_var(torch.tensor([[0.2, 0.2]], dtype=torch.float64))[1]
    )


def test_points_that_are_believed_are_certain_and_change_no_mean():
    points, everywhere = (torch.tensor(np.random.default_rng(7).uniform(-1, 1, (n, 2))) for n in (3, 200))
    beside = points + 1e-3
    believed = LED.fantasize(points)
    np.testing.assert_allclose(believed.mean_var(points)[1], 1e-10)
    assert (believed.mean_var(beside)[1] < 0.02 * LED.mean_var(beside)[1]).all()
    for X in (points, beside, everywhere):
        np.testing.assert_allclose(believed.mean(X), LED.mean(X), atol=1e-6)


def campaign(problem, algorithm, n, *, exact):
    """The first n encoded designs (n, 2) of a campaign over a problem of which the exact solution is known."""
    space = problem.space
    X = 2 * qmc.Sobol(2, rng=np.random.default_rng(0)).random(8)[:6] - 1
    while len(X) < n:
        points = np.array([[design[name] for name in space.names] for design in space.decode(X)], dtype=float)
        data = Observations(X, problem.exact(points), maximize=True, exact=exact)
        posterior = algorithm.fit(data, np.random.default_rng(len(X)))
        found = algorithm.propose(posterior, data, NONE, space, 1, np.random.default_rng(len(X) + 1))
        X = np.vstack([X, found.X])
    return X


def nearest(X):
    """The least distance, in the largest coordinate, between a design and one before it."""
    return min(float(np.abs(X[:i] - X[i]).max(axis=1).min()) for i in range(1, len(X)))


@pytest.mark.parametrize("acquisition", [LogEI(), Thompson()])
def test_near_an_edge_that_looks_like_noise_no_place_is_asked_about_again(acquisition):
    problem = Heat(boundary=2, margin=0.05)
    search = Multistart(n_samples=512, n_starts=4)
    algorithm = Algorithm(Sobol(), 6, ExactGP(restarts=0), acquisition, search)
    assert nearest(campaign(problem, algorithm, 22, exact=True)) > 1e-4


DISCRETE = SearchSpace((Integer("n", 0, 3), Categorical("kind", ("a", "b"))))


@pytest.mark.parametrize("surrogate", [ExactGP(restarts=0), SampledLinear(width=20)])
def test_in_a_discrete_space_every_design_is_asked_for_once(surrogate):
    algorithm = Algorithm(Sobol(), 2, surrogate, LogEI(), Multistart())
    X = DISCRETE.encode([{"n": 0, "kind": "a"}, {"n": 3, "kind": "b"}])
    while len(X) < 8:
        data = Observations(X, X[:, 0] ** 2, maximize=False, exact=True)
        posterior = algorithm.fit(data, np.random.default_rng(0))
        X = np.vstack(
            [X, algorithm.propose(posterior, data, np.empty((0, 3)), DISCRETE, 1, np.random.default_rng(1)).X]
        )
    assert len(np.unique(X, axis=0)) == 8
    data = Observations(X, X[:, 0] ** 2, maximize=False, exact=True)
    with pytest.raises(ValueError, match=r"No design is left|no point is left|taken"):
        algorithm.propose(posterior, data, np.empty((0, 3)), DISCRETE, 1, np.random.default_rng(1))
