"""What the physics engines say of an equation that the results speak against, as one in another unit."""

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import laplace, poisson

ENGINES = [PhysicsInformed("basis", degree=8), PhysicsInformed("kernel"), PhysicsInformed("ntk", width=16)]
NOISE = np.random.default_rng(4).standard_normal(12)


def observed(source, y=None, **given):
    """Results of f_xx + f_yy = 2, read with this source."""
    rng = np.random.default_rng(3)
    X, Z = rng.uniform(-1, 1, (12, 2)), rng.uniform(-1, 1, (24, 2))
    physics = Physics(poisson(2, source), Z, np.zeros(2), np.ones(2))
    truth = X[:, 0] ** 2 + X[:, 0] * X[:, 1] + 3
    return Observations(X, truth if y is None else y, maximize=False, physics=physics, **given)


def fit(surrogate, data):
    return surrogate.fit(data, np.random.default_rng(1), None, no_report)


@pytest.mark.parametrize("surrogate", ENGINES, ids=lambda each: each.engine)
def test_a_source_in_another_unit_leaves_a_remark_that_is_restored(surrogate):
    data = observed(2e6)
    posterior = fit(surrogate, data)
    assert "check its coefficients, and the sign and unit of its right-hand side" in posterior.remarks["equation"]
    assert surrogate.restore(data, posterior.state()).remarks == posterior.remarks


@pytest.mark.parametrize("surrogate", ENGINES, ids=lambda each: each.engine)
@pytest.mark.parametrize("given", [{}, {"y": NOISE}, {"noise_sd": 1e3}], ids=["right", "mere noise", "known noise"])
def test_an_equation_that_the_results_do_not_speak_against_leaves_none(surrogate, given):
    assert fit(surrogate, observed(2.0, **given)).remarks == {}


@pytest.mark.parametrize(
    ("n", "noise", "known"),
    [
        (2, 0.0, True),
        (2, 0.0, False),
        (6, 1.0, True),
        *((10, noise, known) for noise in (1.0, 2.0) for known in (True, False)),
    ],
)
def test_few_or_noisy_results_do_not_make_an_objective_certain(n, noise, known):
    """A harmonic function, read at n places with noise of so many of its deviations, twelve times."""
    Z, errors = np.random.default_rng(3).uniform(-1, 1, (200, 2)), []

    def truth(X):
        return X[:, 0] ** 2 - X[:, 1] ** 2 + 3 * X[:, 0]

    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, sd = rng.uniform(-1, 1, (n, 2)), noise * float(truth(Z).std())
        physics = Physics(laplace(2), Z[:24], np.zeros(2), np.ones(2))
        y = truth(X) + sd * rng.standard_normal(n)
        data = Observations(X, y, maximize=False, physics=physics, noise_sd=sd if known else None)
        mean, variance = (own.numpy() for own in fit(PhysicsInformed("basis"), data).mean_var(torch.from_numpy(Z)))
        errors.append(np.sqrt(np.mean((mean - data.scaling.to_target(truth(Z))) ** 2 / variance)))
    assert np.median(errors) < 5
    assert max(errors) < 50
