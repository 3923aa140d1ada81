"""The figures in which a variable's value is told, and which values are told alike."""

import math

import pytest

from fieldcraft.physics.space import Continuous


@pytest.mark.parametrize(
    ("low", "high", "log", "figures"),
    [
        (0.0, 1.0, False, 6),
        (-5.0, 10.0, False, 6),
        (1550.0, 1550.01, False, 10),
        (101325.0, 101326.0, False, 10),
        (300.15, 300.16, False, 9),
        (1e-7, 1.0, True, 6),
        (1.0, 1.0001, True, 10),
        (1e300, 1.000000000001e300, False, 17),
    ],
)
def test_a_narrow_range_is_told_to_more_figures(low, high, log, figures):
    variable = Continuous("x", low, high, log=log)
    assert variable.figures == figures
    told = [f"{low + share * (high - low):.{figures}g}" for share in (0.3, 0.3002)]
    assert len(set(told)) == 2 or figures == 17


@pytest.mark.parametrize(
    ("low", "high", "value"), [(0.0, 0.05, 0.010581557123), (1e-6, 1e-2, 1.0330214e-6), (1550.0, 1550.01, 1550.00212)]
)
def test_a_value_as_it_is_told_is_the_value_and_one_figure_further_is_another(low, high, value):
    variable = Continuous("x", low, high, log=low > 0 and high / low > 2)
    assert variable.told_alike(value, float(f"{value:.{variable.figures}g}"))
    assert variable.told_alike(value, float(f"{value:.11g}"))
    last = 10.0 ** (math.floor(math.log10(value)) + 1 - variable.figures)
    assert not variable.told_alike(value, value + 0.6 * last)
    assert not variable.told_alike(value, value - 0.6 * last)


def test_zero_and_the_ends_of_a_circle_are_told_alike_with_what_lies_beside_them():
    line, circle = Continuous("x", -1.0, 1.0), Continuous("a", 0.0, 360.0, periodic=True)
    assert line.told_alike(0.0, 1e-12)
    assert not line.told_alike(0.0, 1e-6)
    assert circle.told_alike(0.0, 360.0)
    assert not circle.told_alike(0.0, 359.9)
