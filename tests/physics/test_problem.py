"""What a problem has without saying so, and Branin's function."""

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.problem import Output, Problem, Simulator
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Bare(Problem):
    """The least a problem can say."""

    space = SearchSpace((Continuous("a", 0.0, 1.0),))
    outputs = (Output("cost", "EUR"), Output("excess", "kg"))


def test_a_bare_problem_knows_nothing_more():
    problem = Bare()
    assert problem.domain is None and problem.equation is None and problem.sd is None
    assert problem.optimum("minimize") is None and problem.optimum("maximize") is None
    assert problem.exact(np.zeros((2, 1))) is None


def test_outputs_are_read_from_the_scalars_of_their_names():
    fields = xr.Dataset({"cost": 3, "excess": np.float32(-0.5), "extra": 7.0})
    assert Bare().evaluate({"a": 0.5}, fields) == {"cost": 3.0, "excess": -0.5}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (xr.Dataset({"cost": 1.0}), r"gave no 'excess' \(it gave cost\): let it write a scalar variable 'excess'"),
        (xr.Dataset(), r"gave no 'cost' \(it gave nothing\)"),
        (xr.Dataset({"cost": ("t", [1.0, 2.0])}), r"'cost' has the dimensions \('t',\), not a single number"),
    ],
)
def test_an_output_that_is_missing_or_no_number_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Bare().evaluate({"a": 0.5}, fields)


def test_a_problem_without_space_and_a_simulator_without_run_cannot_be_made():
    with pytest.raises(TypeError, match="abstract method"):
        type("Empty", (Problem,), {})()
    with pytest.raises(TypeError, match="abstract method"):
        type("Idle", (Simulator,), {})()


def test_a_simulator_is_not_repeated_unless_it_says_so():
    assert Simulator.idempotent is False


def test_branin_has_three_equal_minima():
    minima = np.array([(-np.pi, 12.275), (np.pi, 2.275), (3 * np.pi, 2.475)])
    np.testing.assert_allclose(Branin().exact(minima), 0.397887358, atol=5e-10)
    rng = np.random.default_rng(0)
    for minimum in minima:
        around = minimum + rng.normal(0, 0.01, (50, 2))
        assert Branin().exact(around).min() > 0.397887357


def test_branins_optima_bound_its_values():
    best, worst = Branin().optimum("minimize"), Branin().optimum("maximize")
    values = Branin().exact(np.random.default_rng(1).uniform((-5, 0), (10, 15), (20000, 2)))
    assert best.value < values.min() < 0.6
    assert 290 < values.max() < worst.value
    assert values.std() == pytest.approx(Branin().sd, rel=0.02)
    assert best.value == Branin().function(best.design)["value"] == pytest.approx(0.397887358, abs=5e-10)
