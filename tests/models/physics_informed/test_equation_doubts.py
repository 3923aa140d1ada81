"""What the physics engines say of an equation that the results speak against, as one in another unit."""

import numpy as np
import pytest

from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import poisson

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
