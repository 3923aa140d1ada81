"""Solutions that are rough over the box, in one variable, where the points of the equation show them."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import qmc

from fieldcraft.models.equations.functionals import joint_rows
from fieldcraft.models.equations.residuals import linear_rows
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.joint_evidence import Belief, choose_hyper
from fieldcraft.models.physics_informed.operator_kernels import Stationary
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.problems.beam import Beam

PLACES = np.linspace(0.0, 1.0, 401)
BEAM = Beam(oracle=True)
# (1 + x) u'' + u' = 0
SLOW = LinearEquation(0.0, (1.0,), ((lambda points: 1 + points[:, 0],),))


def waves(k):
    """u' + 3 u = k cos kx + 3 sin kx, of which sin kx + 2 e^-3x is a solution."""
    return LinearEquation(3.0, (1.0,), ((0.0,),), right=lambda p: k * np.cos(k * p[:, 0]) + 3 * np.sin(k * p[:, 0]))


def observed(equation, solution, n, seed, noise, points=128):
    x = qmc.Sobol(1, seed=seed).random(n)
    sd = noise * float(solution(PLACES).std())
    readings = solution(x[:, 0]) + sd * np.random.default_rng(seed).standard_normal(n)
    known = Physics(equation, qmc.Sobol(1, seed=seed + 50).random(points), np.array([0.5]), np.array([0.5]))
    return Observations(2 * x - 1, readings, maximize=False, noise_sd=sd, physics=known)


def fitted(data):
    return PhysicsInformed(engine="kernel").fit(data, np.random.default_rng(0), None, no_report)


def predicted(posterior):
    mean, _ = posterior.mean_var(torch.from_numpy(2 * PLACES[:, None] - 1))
    return posterior.scaling.to_physical(mean.detach().numpy())


def error(posterior, solution):
    truth = solution(PLACES)
    return float(np.sqrt(np.mean((predicted(posterior) - truth) ** 2)) / truth.std())


def deflection(x):
    return BEAM.exact(np.atleast_1d(x)[:, None])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_eight_noisy_results_and_the_equation_tell_where_the_beam_is_lowest(seed):
    posterior = fitted(observed(BEAM.equation, deflection, 8, seed, 0.1, points=256))
    assert error(posterior, deflection) < 0.25
    assert PLACES[np.argmin(predicted(posterior))] == pytest.approx(BEAM.optimum("minimize").design["x"], abs=0.005)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_eight_noisy_results_tell_forced_waves(seed):
    data = observed(waves(40.0), lambda x: np.sin(40 * x) + 2 * np.exp(-3 * x), 8, seed, 0.05)
    assert error(fitted(data), lambda x: np.sin(40 * x) + 2 * np.exp(-3 * x)) < 0.05


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_smooth_solution_is_not_taken_for_a_rough_one(n, seed):
    posterior = fitted(observed(SLOW, lambda x: 3 * np.log1p(x) - 1, n, seed, 0.05))
    assert posterior.metrics["length_scale_0"] > 0.5
    assert error(posterior, lambda x: 3 * np.log1p(x) - 1) < 0.1


def test_four_points_show_no_rough_solution():
    data = observed(BEAM.equation, deflection, 8, 1, 0.1, points=4)
    assert fitted(data).metrics["length_scale_0"] > 0.1


def test_the_belief_of_the_higher_log_posterior_counts():
    data = observed(BEAM.equation, deflection, 8, 1, 0.1)
    rows = joint_rows(data, data.physics, linear_rows(data.physics, data.scaling, data.physics.points))
    covariances = (Stationary("rbf"), Stationary("rbf"))
    smooth = Belief(scales=(0.0, 0.5))
    rough = Belief(scales=(1.7, 1.7), starts=((1.7, -1.7),), slacks=(-14.0,), limits=(-3.0, 4.5))
    posterior = {}
    for belief in (smooth, rough):
        found, evidence = choose_hyper(covariances, rows, (belief,), data.noise_variance)
        posterior[belief] = evidence + float(belief.log_density(found)) - 2 * math.log(belief.scales[1])
    ahead = posterior[rough] - posterior[smooth]
    assert ahead > 0
    for odds, first in ((0.9 * ahead, rough), (1.1 * ahead, smooth)):
        less = Belief(**{**vars(rough), "odds": -odds})
        found, _ = choose_hyper(covariances, rows, (smooth, less), data.noise_variance)
        alone, _ = choose_hyper(covariances, rows, (first,), data.noise_variance)
        assert torch.equal(found.scales, alone.scales)
