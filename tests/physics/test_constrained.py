"""Constrained problems against their listed truth: optima by SLSQP, feasible shares and spreads by Monte Carlo."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from fieldcraft.physics.problems.constrained_ackley import ConstrainedAckley
from fieldcraft.physics.problems.constrained_branin import ConstrainedBranin
from fieldcraft.physics.problems.constrained_hartmann import ConstrainedHartmann
from fieldcraft.physics.problems.gas_compressor import GasCompressor
from fieldcraft.physics.problems.simionescu import Simionescu
from fieldcraft.physics.problems.speed_reducer import SpeedReducer

# The least value, and the share of the box that is feasible.
LISTED = [
    (ConstrainedBranin(), 0.397887358, 0.698),
    (Simionescu(), -0.072, 0.513),
    (ConstrainedAckley(), 0.0, 0.134),
    (ConstrainedHartmann(), -3.322368011, 0.081),
    (GasCompressor(), 2964895.4173, 0.524),
    (SpeedReducer(), 2996.301563, 0.0019),
    (SpeedReducer("cec2020"), 2994.424466, 0.0010),
]
DRAWS = 400_000


def named(listed):
    return [pytest.param(*row, id=f"{type(row[0]).__name__}{i}") for i, row in enumerate(listed)]


def uniform(problem):
    low, high = np.array(problem.bounds).T
    X = low + (high - low) * np.random.default_rng(0).random((DRAWS, len(low)))
    if isinstance(problem, SpeedReducer):
        X[:, 2] = np.random.default_rng(1).integers(17, 29, DRAWS)
    return X


@pytest.mark.parametrize(("problem", "value", "share"), named(LISTED))
def test_the_listed_optimum_share_and_spread(problem, value, share):
    assert problem.optimum("minimize").value == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert problem.optimum("maximize") is None
    X = uniform(problem)
    feasible = np.all(problem.exact_constraints(X) <= 0, axis=1).mean()
    assert abs(feasible - share) < 4 * math.sqrt(share * (1 - share) / DRAWS) + 6e-4
    assert problem.exact(X).std() == pytest.approx(problem.sd, rel=0.02)


def test_the_speed_reducers_listed_spread_is_that_of_a_real_number_of_teeth():
    low, high = np.array(SpeedReducer().bounds).T
    X = low + (high - low) * np.random.default_rng(0).random((DRAWS, 7))
    assert SpeedReducer().exact(X).std() == pytest.approx(802.0, rel=0.005)


@pytest.mark.parametrize(("problem", "value", "share"), named(LISTED[3:]))
def test_no_search_from_any_of_ten_starts_ends_below_the_listed_optimum(problem, value, share):
    low, high = np.array(problem.bounds).T
    if isinstance(problem, SpeedReducer):
        high[2] = low[2]  # more teeth are heavier
    widths = 1 + np.ptp(problem.exact_constraints(uniform(problem)[:1000]), axis=0)
    reached = []
    for start in np.random.default_rng(2).random((10, len(low))):
        found = minimize(
            lambda x: problem.exact(x[None])[0] / problem.sd,
            low + (high - low) * start,
            bounds=list(zip(low, high, strict=True)),
            constraints={"type": "ineq", "fun": lambda x: -problem.exact_constraints(x[None])[0] / widths},
            options={"ftol": 1e-12, "maxiter": 300},
        )
        if np.all(problem.exact_constraints(found.x[None])[0] <= 1e-9 * widths):
            reached.append(found.fun * problem.sd)
    assert min(reached) >= value - 1e-6 * problem.sd
    assert min(reached) == pytest.approx(value, rel=1e-6)


def test_another_box_is_refused():
    with pytest.raises(ValueError, match=r"no box 'golinski': choose one of authors, cec2020\."):
        SpeedReducer("golinski")
