"""Equations in more than three variables, whose points lie far apart."""

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import laplace, poisson

D = 10
KERNEL = PhysicsInformed("kernel")


def observed(solution, equation, n, seed):
    """n results with noise of 5%, the equation at 128 places, and 300 designs with what they have."""
    rng = np.random.default_rng(seed)
    X, Z, places = (rng.uniform(-1.0, 1.0, (many, D)) for many in (n, 300, 128))
    truth = solution(Z)
    y = solution(X) + 0.05 * truth.std() * rng.normal(size=n)
    known = Physics(equation, places, np.zeros(D), np.ones(D))
    return Observations(X, y, maximize=False, physics=known), Z, truth


def fitted(surrogate, data):
    return surrogate.fit(data, np.random.default_rng(0), None, no_report)


def error(posterior, Z, truth):
    with torch.no_grad():
        mean = posterior.scaling.to_physical(posterior.mean_var(torch.tensor(Z))[0].numpy())
    return np.sqrt(np.mean((mean - truth) ** 2)) / truth.std()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_true_equation_tells_more_than_the_results_alone(seed):
    """A quadratic without curvature on the whole, and a slope: Laplace's equation holds."""
    rng = np.random.default_rng(seed)
    M, slope = rng.normal(size=(D, D)), rng.normal(size=D)
    M -= np.eye(D) * np.trace(M) / D
    data, Z, truth = observed(lambda X: ((X @ M) * X).sum(axis=1) / np.sqrt(D) + X @ slope, laplace(D), 40, seed)
    assert error(fitted(KERNEL, data), Z, truth) < 0.95 * error(fitted(ExactGP(), data), Z, truth)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_few_results_speak_against_no_true_equation(seed):
    """Bells of a width that is a fourth of the box's, and the source that they come from."""
    middle = np.random.default_rng(seed).uniform(-0.5, 0.5, D)

    def source(points):
        squares = (points - middle) ** 2
        return (np.exp(-2 * squares) * (16 * squares - 4)).sum(axis=1)

    data, Z, truth = observed(lambda X: np.exp(-2 * (X - middle) ** 2).sum(axis=1), poisson(D, source), 20, seed)
    posterior = fitted(KERNEL, data)
    assert posterior.metrics["slack_sd"] < 0.1 and set(posterior.remarks) <= {"solution"}
    assert error(posterior, Z, truth) < 0.95 * error(fitted(ExactGP(), data), Z, truth)
