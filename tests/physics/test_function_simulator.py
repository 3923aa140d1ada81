"""A problem's own formula as a simulator."""

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.simulators.function import Function
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Spring(Problem):
    """A stretched spring whose function answers with whatever the test gives it."""

    answer: object

    space = SearchSpace((Continuous("force", 0.0, 10.0, "N"),))
    outputs = (Output("stretch", "m"), Output("excess", "N"))

    def function(self, design):
        return self.answer


def answered(answer):
    return Function().run(Spring(answer), {"force": 1.0}, np.random.default_rng(0))


def test_a_function_of_numbers_becomes_scalars_with_the_outputs_units():
    fields = answered({"stretch": 0.25, "excess": np.int64(-3)})
    assert {name: (float(v), v.attrs["units"], v.ndim) for name, v in fields.data_vars.items()} == {
        "stretch": (0.25, "m", 0),
        "excess": (-3.0, "N", 0),
    }
    assert Spring(None).evaluate({"force": 1.0}, fields) == {"stretch": 0.25, "excess": -3.0}


@pytest.mark.parametrize("number", [np.array(0.25), np.array(0.25, dtype=np.float32), np.float32(0.25), np.array(3)])
def test_an_array_without_dimensions_is_a_number(number):
    fields = answered({"stretch": number, "excess": 0})
    assert (float(fields["stretch"]), fields["stretch"].ndim) == (float(number), 0)


def test_a_function_may_answer_with_a_dataset_which_is_left_as_it_was():
    given = xr.Dataset(
        {"stretch": 0.25, "shape": (("s",), [0.0, 0.1], {"units": "m"})},
        coords={"s": ("s", [0.0, 1.0], {"units": "m"})},
    )
    fields = answered(given)
    assert fields["stretch"].attrs == {"units": "m"}
    assert fields["shape"].attrs == {"units": "m"}
    assert given["stretch"].attrs == {}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"stretch": "far"}, "gave stretch = 'far': return a number, or an xarray.Dataset"),
        ({"stretch": np.array([0.25])}, r"gave stretch = array\(\[0.25\]\): return a number, or an xarray.Dataset"),
        ({"stretch": np.array("far")}, "return a number, or an xarray.Dataset"),
        ({"stretch": None}, "gave stretch = None: return a number"),
        ({"strech": 1.0}, "gave 'strech' without a unit: set its attrs"),
        (0.25, "gave 0.25: return numbers by name, or an xarray.Dataset"),
        (xr.Dataset({"shape": (("s",), [0.0, 0.1])}), "gave 'shape' without a unit"),
    ],
)
def test_a_function_that_answers_with_something_else_is_told_so(answer, message):
    with pytest.raises(ValueError, match=message):
        answered(answer)


def test_the_function_simulator_refuses_a_problem_without_a_function():
    with pytest.raises(ValueError, match=r"'function' cannot run Heat: give it a method `function\(design\)`"):
        Function().run(Heat(), {"x": 1.0, "y": 2.0}, np.random.default_rng(0))
