"""What a problem has without saying so, and Branin's function."""

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.outputs.checks import numbers_given
from fieldcraft.physics.problem import Output, Problem, Simulator
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.physics.space import Continuous, SearchSpace

MEASURED = (Output("drag", "N"), Output("lift", "N"))
BAR = {"d1": 30.0, "d2": 25.0, "d3": 20.0, "d4": 15.0, "d5": 10.0}


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


def deflected(**changes):
    """A cantilever's field as a simulator may give it."""
    fields = StatedEquation(20).run(CantileverProfile(), BAR, np.random.default_rng(0))
    return fields.assign(**changes)


def test_outputs_are_read_from_the_stated_fields_or_as_they_are():
    read = CantileverProfile().evaluate(BAR, deflected())["compliance"]
    assert read == pytest.approx(500 * float(deflected()["deflection"].mean()), rel=1e-12)
    assert CantileverProfile().evaluate(BAR, deflected().drop_vars("moment"))["compliance"] == read
    assert CantileverProfile().evaluate(BAR, deflected(compliance=((), 2.5))) == {"compliance": 2.5}


@dataclass(frozen=True)
class Said(CantileverProfile):
    """Whose functional gives something else than numbers of each design."""

    found: object = None

    def functional(self, fields, axes, designs):
        return self.found


class Silent(CantileverProfile):
    """States fields and does not say what is read from them."""

    functional = Problem.functional


@pytest.mark.parametrize(
    ("problem", "fields", "message"),
    [
        (
            CantileverProfile(),
            lambda: xr.Dataset({"tip": 1.0}),
            r"no field 'deflection' with the dimensions x; it gave tip",
        ),
        (CantileverProfile(), lambda: xr.Dataset(), "it gave nothing"),
        (CantileverProfile(), lambda: deflected().drop_vars("deflection"), "no field 'deflection'.*gave moment"),
        (CantileverProfile(), lambda: deflected().isel(x=slice(1, None)), "along 'x'.*not the centres of equal cells"),
        (CantileverProfile(), lambda: deflected().drop_vars("x"), "along 'x'.*not the centres of equal cells"),
        (Silent(), deflected, "none of compliance, and Silent has no `functional`"),
        (Said(None), deflected, "none of compliance, and Said has a `functional` that returned None"),
        (Said(np.array([1.0])), deflected, r"an array of the shape \(1,\): it must be \(1, 1\)"),
        (Said(1.0), deflected, r"an array of the shape \(\): it must be \(1, 1\)"),
    ],
)
def test_fields_that_tell_no_outputs_are_refused(problem, fields, message):
    with pytest.raises(ValueError, match=message):
        problem.evaluate(BAR, fields())


def test_a_grid_without_an_equation_is_refused():
    with pytest.raises(ValueError, match="Branin states no equation of its fields: give it a `parametric`"):
        Branin().on_grid({}, (4,))
    assert Branin().emulate({}) is None and Silent().emulator is None


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "it gave None: let it return a dictionary with a number for each of drag, lift"),
        ([1.0, 2.0], "it gave a list: let it return a dictionary"),
        ({"drag": 1.0, "lfit": 2.0}, r"it gave no 'lift' \(it gave drag, lfit\): give a number"),
        ({}, r"it gave no 'drag' \(it gave nothing\)"),
        ({"drag": 1.0, "lift": 2j}, "'lift' is 2j: give one real number"),
        ({"drag": None, "lift": 2.0}, "'drag' is None: give one real number"),
        ({"drag": "much", "lift": 2.0}, "'drag' is 'much': give one real number"),
        ({"drag": np.zeros(2), "lift": 2.0}, r"'drag' is an array of the shape \(2,\): give one real number"),
    ],
)
def test_what_evaluate_gives_is_a_real_number_for_each_measured_output(found, message):
    with pytest.raises(ValueError, match=message):
        numbers_given(found, MEASURED)
    more = {"lift": np.array(2), "drag": xr.DataArray(1.5), "more": "a note"}
    assert numbers_given(more, MEASURED) == {"drag": 1.5, "lift": 2.0}


@pytest.mark.parametrize(
    ("given", "told"),
    [({"tip": 1.0}, "a dict"), ("much", "a str"), (np.array([[1j]]), "an array of the type complex")],
)
def test_a_functional_that_gives_no_numbers_is_refused(given, told):
    class Odd(CantileverProfile):
        def functional(self, fields, axes, designs):
            return given

    problem = Odd()
    fields = StatedEquation(cells=8).run(problem, BAR, np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"The functional of Odd gave {told}.*: give an array of real numbers"):
        problem.evaluate(BAR, fields)
    with pytest.raises(ValueError, match=f"The functional of Odd gave {told}"):
        problem.emulate({name: np.array([[value]]) for name, value in BAR.items()})


def test_a_functional_that_gives_one_number_for_all_designs_has_the_wrong_shape():
    class Lone(CantileverProfile):
        def functional(self, fields, axes, designs):
            return 3.0

    assert Lone().emulate({name: np.array([[value]] * 2) for name, value in BAR.items()}).shape == (1,)
