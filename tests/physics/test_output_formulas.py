"""Formulas of outputs, read by their own parser; distances; and results that a campaign file states."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.physics.outputs.checks import require_computable
from fieldcraft.physics.outputs.distance import Distance
from fieldcraft.physics.outputs.formula import Formula
from fieldcraft.physics.outputs.output import Output
from fieldcraft.physics.problems._declared import StatedVariable
from fieldcraft.physics.problems._stated_results import StatedResult
from fieldcraft.physics.problems.declared import Declared

VALUES = {"a": 3.0, "b": 4.0, "c": 0.5, "x[0]": 2.0, "tensile strength": 7.0}
VARIABLES = (StatedVariable("x", 0, 1), StatedVariable("glue", choices=("A", "B")))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a / b", 0.75),
        ("-a^2 + 2*b**-1", -8.5),
        ("2^3^2 * a", 1536.0),
        ("a - b - c", -1.5),
        ("a / b / c", 1.5),
        ("max(a, b, 1) - min(c, a)", 3.5),
        ("abs(a - b) * 1e2", 100.0),
        ("sqrt(b) + log(exp(a)) + log10(100) * c", 6.0),
        ("`tensile strength` * x[0]", 14.0),
        ("-(-a) * +c", 1.5),
        ("max(0, c) * a", 1.5),
    ],
)
def test_a_formula_has_the_same_value_for_numbers_arrays_and_tensors(text, value):
    formula = Formula(text)
    assert float(formula(VALUES)) == pytest.approx(value, rel=1e-15)
    np.testing.assert_allclose(formula({name: np.full(2, v) for name, v in VALUES.items()}), value, rtol=1e-15)
    tensors = {name: torch.tensor([v], dtype=torch.float64, requires_grad=True) for name, v in VALUES.items()}
    found = formula(tensors)
    assert float(found.detach()) == pytest.approx(value, rel=1e-15)
    (slope,) = torch.autograd.grad(found.sum(), tensors[formula.names[0]])
    lower, upper = (float(formula(VALUES | {formula.names[0]: VALUES[formula.names[0]] + h})) for h in (-1e-6, 1e-6))
    assert float(slope) == pytest.approx((upper - lower) / 2e-6, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"lacks a number, a name or '\(' at its end"),
        ("a b", "lacks an operator at 'b'"),
        ("(a", r"lacks '\)' at its end"),
        ("a.b", r"lacks an operator at '\.b'"),
        ("a; b", "lacks an operator at '; b'"),
        ("__import__('os')", "has the function '__import__'. Known: abs, sqrt"),
        ("a if b else c", "lacks an operator at 'if b else c'"),
        ("2 + 3", "reads no output: name at least one"),
        ("abs(a, b)", "gives abs 2 numbers: it takes one"),
        ("1/0 * a", "A formula divides by 0"),
        ("a / (2 - 2)", "A formula divides by 0"),
        ("10^400 * a", "A number of the formula is inf"),
        ("(-2)^0.5 * a", "A number of the formula is nan"),
        ("(" * 100 + "a" + ")" * 100, "over 20 brackets and powers within each other"),
        ("2^" * 100 + "a", "over 20 brackets and powers within each other"),
        ("a+" * 300 + "a", "has 601 characters: at most 500"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_place(text, message):
    with pytest.raises(ValueError, match=message):
        Formula(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a / b", "b"),
        ("a / (b * c^2)", "bc"),
        ("a * b^-1", "b"),
        ("sqrt(a) + b", "a"),
        ("a / (1 + b)", ""),
        ("a^2", ""),
    ],
)
def test_a_formula_knows_what_it_divides_by(text, names):
    assert Formula(text).kept_from_zero == set(names)


def test_a_division_by_zero_is_not_finite_and_no_error():
    assert math.isinf(Formula("a / b")({"a": 1, "b": 0}))
    assert math.isnan(Formula("sqrt(a)")({"a": -1}))


def test_a_distance_is_zero_inside_its_band_and_grows_outside():
    y = np.array([37.0, 38.0, 40.0, 42.0, 42.5])
    np.testing.assert_array_equal(Distance("h", 38.0, 42.0)({"h": y}), [1.0, 0.0, 0.0, 0.0, 0.5])
    np.testing.assert_array_equal(Distance("h", 40.0, 40.0)({"h": torch.tensor(y)}), [3.0, 2.0, 0.0, 2.0, 2.5])
    for ends, message in (((42.0, 38.0), "swap its ends"), ((0.0, math.inf), "give finite numbers")):
        with pytest.raises(ValueError, match=message):
            Distance("h", *ends)


def test_stated_results_become_the_objective_the_constraints_and_the_plain_ones():
    results = (
        StatedResult("colour", plain=True),
        StatedResult("purity", "1/g", formula="yield / impurity + 0 * x"),
        StatedResult("smoke"),
        StatedResult("yield", "g", plain=True, sd=0.1),
        StatedResult("impurity", plain=True),
        StatedResult("lean", formula="impurity - 3"),
    )
    problem = Declared(VARIABLES, results)
    names = ["purity", "smoke", "lean", "colour", "yield", "impurity"]
    assert [output.name for output in problem.outputs] == names
    assert [output.name for output in problem.measured] == ["smoke", "colour", "yield", "impurity"]
    values = {"yield": 6.0, "impurity": 2.0, "smoke": -1.0, "colour": 0.0}
    found = problem.completed(values, {"x": 0.5, "glue": "A"})
    assert list(found) == names and (found["purity"], found["lean"]) == (3.0, -1.0)
    assert "purity" not in problem.completed({"yield": 6.0}, {"x": 0.5})


def test_a_target_is_an_output_and_its_distance():
    problem = Declared(VARIABLES, (StatedResult("h", "HRC", target=40.0, sd=0.2), StatedResult("c")))
    assert [(o.name, o.unit, o.plain, o.sd) for o in problem.outputs] == [
        ("h_distance", "HRC", False, None),
        ("c", "", False, None),
        ("h", "HRC", True, 0.2),
    ]
    assert problem.completed({"h": 38.5, "c": 0.0}, {})["h_distance"] == 1.5


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([{"plain": True}], "Every result is plain"),
        ([{"formula": "b / 2", "target": 3.0}], "has formula and target: give one of them"),
        ([{"formula": "b / 2", "target": 0.0}, {"plain": True}], "has formula and target: give one of them"),
        ([{"formula": "b / 2"}], "reads 'b': name measured results and numeric variables"),
        ([{"formula": "b / 2"}, {}], "'b', which would be a constraint too.*say plain: true of 'b'"),
        ([{"formula": "b / glue"}, {"plain": True}], "reads 'glue': name measured results"),
        ([{"formula": "b / c"}, {"plain": True}, {"formula": "b + 1"}], "reads 'c': name measured"),
        ([{"formula": "2 * x"}], "reads no measured result"),
        ([{"target": 40.0, "objective": "maximize"}], "is maximised and has a target or a band"),
        ([{}, {"band": (1.0, 2.0)}], "has a target or a band and is no objective: name it first"),
        ([{"band": (2.0, 1.0)}], r"a has the band \[2.0, 1.0\]: swap its ends"),
        (
            [{"formula": "b / 2", "sd": 0.1}, {"plain": True}],
            "is computed from others: leave out plain, and give the sd",
        ),
    ],
)
def test_results_that_do_not_fit_are_refused(results, message):
    with pytest.raises(ValueError, match=message):
        Declared(VARIABLES, tuple(StatedResult(name, **stated) for name, stated in zip("abcd", results, strict=False)))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([Output("b", plain=True), Output("r", formula=Formula("b / 2"))], "'b' is plain and the first: name the obj"),
        ([Output("r", formula=Formula("raw - 2")), Output("raw-b", plain=True)], "reads 'raw'.*mean '`raw-b`'"),
        ([Output("r", formula=Formula("r / b")), Output("b", plain=True)], "reads 'r': name measured results"),
        ([Output("r", formula=Distance("bb", 1.0, 2.0)), Output("b", plain=True)], "reads 'bb'.*Did you mean 'b'"),
        ([Output("r", formula=Formula("b * glue")), Output("b", plain=True)], "reads 'glue': name measured results"),
        ([Output("r", formula=Formula("b * x")), Output("b"), Output("x", plain=True)], "have the name 'x'"),
    ],
)
def test_outputs_in_python_are_held_to_the_same(outputs, message):
    space = Declared(VARIABLES, (StatedResult("y"),)).space
    with pytest.raises(ValueError, match=message):
        require_computable(outputs, space)
    with pytest.raises(ValueError, match=r"a text for a formula: give Formula\('b / 2'\)"):
        Output("r", formula="b / 2")


def test_a_distance_says_its_ends_in_full():
    assert str(Distance("h", 1234567.0, 1234567.0)) == "distance of h from 1234567"
    assert str(Distance("h", -0.1, 1e-7)) == "distance of h from -0.1..1e-07"


def test_one_name_stands_for_one_number():
    for stated in (("x", "b"), ("a", "a")):
        results = (StatedResult(stated[0], formula="b + 1"), StatedResult("b", plain=True), StatedResult(stated[1]))
        with pytest.raises(ValueError, match=r"Two results or variables have the name|named"):
            Declared(VARIABLES, results)
