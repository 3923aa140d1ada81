"""Coefficients of a stated equation that have ranges: what is stated, what is refused, and what the equation gets."""

import math

import numpy as np
import pytest

import fieldcraft
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation, UncertainCoefficient

LINE = Domain((Axis("s", 0.0, 1.0),))
EXCHANGE = UncertainCoefficient("exchange", 5.0, 200.0, "W/(m^2 K)", value=50.0)
CONDUCTANCE = UncertainCoefficient("conductance", 0.0, 2.0, "W/K", value=0.4)


def equation(design):
    """h u - k u'' = design's load."""
    load = design["load"]
    return LinearEquation(
        design["exchange"], (0.0,), ((-design["conductance"],),), lambda points: load + 0 * points[:, 0]
    )


def stated(*coefficients, equation=equation):
    ends = (Condition("u", "s", "low"), Condition("u", "s", "high", value=0.0, slope=1.0))
    return ParametricEquation(LINE, (Field("u", "K"),), equation, ends, (40,), coefficients=coefficients)


@pytest.mark.parametrize("load", [3.0, np.array([[3.0], [-1.0]])], ids=["one design", "two designs"])
def test_an_equation_is_solved_for_the_values_of_its_coefficients(load):
    for k in (0.4, 1.3):
        known = stated(EXCHANGE, CONDUCTANCE).calibrated([20.0, k])
        found = solved(known, {"load": load}, (400,))["u"]
        s, m = (np.arange(400) + 0.5) / 400, math.sqrt(20.0 / k)
        exact = np.reshape(load, (-1, 1)) / 20.0 * (1 - np.cosh(m * (1 - s)) / np.cosh(m))
        np.testing.assert_allclose(found, exact, atol=1e-5)


def test_without_other_values_the_stated_ones_hold():
    known = stated(EXCHANGE, CONDUCTANCE)
    assert known.values == {"exchange": 50.0, "conductance": 0.4}
    plain = stated(equation=lambda design: equation({**design, "exchange": 50.0, "conductance": 0.4}))
    assert plain.coefficients == () and plain.values == {}
    both = [solved(each, {"load": np.array([[3.0], [1.0]])}, each.cells)["u"] for each in (known, plain)]
    np.testing.assert_array_equal(*both)


def test_calibrating_changes_the_values_alone():
    known = stated(EXCHANGE, CONDUCTANCE)
    other = known.calibrated(np.array([200.0, 0.0]))
    assert other.values == {"exchange": 200.0, "conductance": 0.0}
    assert [(each.low, each.high, each.unit) for each in other.coefficients] == [
        (5.0, 200.0, "W/(m^2 K)"),
        (0.0, 2.0, "W/K"),
    ]
    assert other.calibrated([50.0, 0.4]) == known
    assert fieldcraft.UncertainCoefficient is UncertainCoefficient


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: UncertainCoefficient(" ", 0.0, 1.0, value=0.5), "named ' ': give every coefficient a name"),
        (lambda: UncertainCoefficient("h", 2.0, 1.0, value=1.5), "h ranges from 2.0 to 1.0: give finite bounds"),
        (lambda: UncertainCoefficient(3, 1.0, 2.0, value=1.5), "A coefficient is named 3"),
        (lambda: UncertainCoefficient("h", "1", 2.0, value=1.5), "The coefficient h has '1' for a bound or its value"),
        (lambda: UncertainCoefficient("h", 1.0, 2.0, value=None), "has None for a bound or its value: give a number"),
        (lambda: UncertainCoefficient("h", 1.0, 1.0, value=1.0), "h ranges from 1.0 to 1.0"),
        (lambda: UncertainCoefficient("h", math.nan, 1.0, value=0.5), "h ranges from nan to 1.0"),
        (lambda: UncertainCoefficient("h", 0.0, math.inf, value=0.5), "h ranges from 0.0 to inf"),
        (lambda: UncertainCoefficient("h", 0.0, 1.0, value=1.5), "value 1.5, which is not from 0 to 1: state one wi"),
        (lambda: UncertainCoefficient("h", 0.0, 1.0, value=math.nan), "h has the value nan"),
        (lambda: stated(EXCHANGE, EXCHANGE), "has the coefficients exchange, exchange: give each its own name"),
        (
            lambda: stated(UncertainCoefficient("load", 0.0, 1.0, value=0.5)).of({"load": 1.0}),
            "'load' is the name of a coefficient of the equation and of a variable of the design: give the coefficient",
        ),
        (lambda: stated(EXCHANGE).calibrated([300.0]), "value 300.0, which is not from 5 to 200"),
        (lambda: stated(EXCHANGE).calibrated([30.0, 1.0]), "argument 2 is longer"),
    ],
)
def test_nonsense_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()
