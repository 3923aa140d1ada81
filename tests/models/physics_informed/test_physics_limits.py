"""What the physics engines refuse before a fit, and the degree that suits the number of variables."""

import numpy as np
import pytest
import torch

from fieldcraft.models.linear import polynomials
from fieldcraft.models.linear.polynomials import largest_degree
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.solutions import polynomial
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, helmholtz, laplace


def observed(equation, d, n=8, r=16):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    physics = Physics(equation, rng.uniform(-1, 1, (r, d)), np.zeros(d), np.ones(d))
    return Observations(X=X, y=X[:, 0] * X[:, 1] + X[:, -1], maximize=False, noise_sd=0.01, physics=physics)


def fit(surrogate, data):
    return surrogate.fit(data, np.random.default_rng(1), None, no_report)


def test_the_degree_is_the_largest_whose_polynomials_are_few_enough():
    assert [largest_degree(d) for d in (1, 2, 3, 4, 5, 6, 7, 8, 12)] == [30, 30, 9, 4, 2, 2, 1, 1, 1]


def test_an_equation_in_three_variables_is_learnt_with_the_default_degree_and_restored(monkeypatch):
    monkeypatch.setattr(polynomials, "_MOST_POLYNOMIALS", 130)
    data = observed(laplace(3), 3)
    posterior = fit(PhysicsInformed("basis"), data)
    assert posterior.state()["basis"].shape[0] == 5**3
    Z = torch.tensor(np.random.default_rng(2).uniform(-1, 1, (4, 3)))
    again = PhysicsInformed("basis").restore(data, posterior.state())
    assert all(map(torch.equal, again.mean_var(Z), posterior.mean_var(Z)))


def test_the_default_degree_in_the_plane_is_thirty():
    data = observed(laplace(2), 2)
    Z = torch.tensor(np.random.default_rng(2).uniform(-1, 1, (4, 2)))
    found = [fit(PhysicsInformed("basis", degree=degree), data).mean_var(Z) for degree in (None, 30)]
    assert all(map(torch.equal, *found))


def test_one_collocation_point_does_not_make_a_coefficient_that_varies_a_constant():
    varying = LinearEquation(0.0, (0.0, 0.0), ((lambda p: 1 + p[:, 0] ** 2, 0.0), (0.0, 1.0)))
    found = [
        polynomial.polynomial_solutions(observed(equation, 2, r=1).physics, 8) for equation in (varying, laplace(2))
    ]
    assert [type(each) for each in found] == [polynomial.NullSpace, polynomial.Harmonic]


@pytest.mark.parametrize(
    ("surrogate", "equation", "d", "problem"),
    [
        (
            PhysicsInformed("basis", degree=2, memory_gb=1.0),
            laplace(6),
            6,
            "polynomials of degree 2 in 6 variables needs",
        ),
        (PhysicsInformed("basis", degree=20, memory_gb=1e-3), helmholtz(2, 2.0), 2, "degree 20 in 2 variables needs"),
        (
            PhysicsInformed("kernel", memory_gb=1e-4),
            laplace(2),
            2,
            "on 8 trials and 16 rows of the equation",
        ),
        (PhysicsInformed("ntk", memory_gb=1e-4), laplace(2), 2, "on 8 trials and 16 rows of the equation"),
        (
            PhysicsInformed("trained", memory_gb=1e-4),
            laplace(2),
            2,
            "1 networks of 8448 weights on 24 rows needs",
        ),
        (PhysicsInformed("trained", memory_gb=1e-5, steps=1, refinements=0), laplace(2), 2, "on 24 rows needs about"),
    ],
    ids=["many variables", "basis", "kernel", "ntk", "trained", "adam"],
)
def test_a_fit_that_would_not_fit_the_memory_is_refused(surrogate, equation, d, problem):
    with pytest.raises(ValueError, match=rf"{problem}.* GB and memory_gb is .*: raise memory_gb, or"):
        fit(surrogate, observed(equation, d))
