"""Nonlinear stated equations against solutions that can be written down."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, LinearSystem, poisson
from fieldcraft.physics.parametric.derivatives import refuse_wrong_derivatives
from fieldcraft.physics.parametric.evidence import imbalance
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.nonlinear import Nonlinear
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace
from fieldcraft.physics.tangents import gradient

U, V = Field("u"), Field("v")
LINE = Domain((Axis("x", 0.0, 1.0),))
ENDS = (Condition("u", "x", "low"), Condition("u", "x", "high"))


def error(stated, design, cells, truth):
    """Largest error of all fields at the centres of the cells."""
    found, points = solved(stated, design, cells), Grid(stated.domain, cells).points
    expected = truth(points)
    return max(np.abs(found[f.name].reshape(-1) - each).max() for f, each in zip(stated.fields, expected, strict=True))


def falls_by_four(stated, design, cells, truth):
    coarse, fine = (error(stated, design, tuple(factor * n for n in cells), truth) for factor in (1, 2))
    assert 0 < fine < coarse and coarse / fine == pytest.approx(4, rel=0.15)


def bratu(start=()):
    """u'' + k e^u = 0 between two values of 0."""
    return ParametricEquation(
        LINE,
        (U,),
        lambda design: poisson(1, 0.0),
        ENDS,
        (16,),
        nonlinear=lambda points, fields, design: (
            Nonlinear(design["k"] * np.exp(fields[0].value), (design["k"] * np.exp(fields[0].value),)),
        ),
        start=start,
    )


def bratus(k, bracket):
    """Solutions of Bratu's equation: u = -2 log(cosh((x - 1/2) s / 2) / cosh(s / 4)), s = sqrt(2 k) cosh(s / 4)."""
    s = brentq(lambda s: s - math.sqrt(2 * k) * math.cosh(s / 4), *bracket)
    return lambda points: (-2 * np.log(np.cosh((points[:, 0] - 0.5) * s / 2) / np.cosh(s / 4)),)


@pytest.mark.parametrize("k", [1.0, 3.4])
def test_bratus_equation_is_of_second_order_near_its_fold_too(k):
    falls_by_four(bratu(), {"k": k}, (40,), bratus(k, (0.1, 4.7)))


def test_the_start_says_which_of_two_solutions_is_found():
    falls_by_four(bratu(start=(3.0,)), {"k": 1.0}, (160,), bratus(1.0, (6.0, 20.0)))


def test_many_designs_are_solved_as_each_by_itself():
    k = np.array([[0.5], [2.0], [3.4]])
    together = solved(bratu(), {"k": k}, (30,))["u"]
    assert all(
        np.array_equal(row, solved(bratu(), {"k": at[0]}, (30,))["u"][0]) for row, at in zip(together, k, strict=True)
    )


def test_a_design_without_a_solution_is_named():
    with pytest.raises(ValueError, match=r"of u is not solved in steady state on 30 cells for k 3\.6: Newton's method"):
        solved(bratu(), {"k": np.array([[1.0], [3.6]])}, (30,))


def advected(points, fields, design):
    u = fields[0]
    return (Nonlinear(u.value * u.slope(0), (u.slope(0),), ((u.value,),)),)


def test_burgers_front_is_its_tanh():
    """u u_x = D u_xx has the solution -tanh(x / (2 D))."""

    def truth(points):
        return (-np.tanh(points[:, 0] / 0.4),)

    wide = Domain((Axis("x", -1.0, 1.0),))
    sides = tuple(Condition("u", "x", end, -math.tanh(x / 0.4)) for end, x in (("low", -1.0), ("high", 1.0)))
    stated = ParametricEquation(
        wide, (U,), lambda design: LinearEquation(0.0, (0.0,), ((-0.2,),)), sides, (16,), nonlinear=advected
    )
    falls_by_four(stated, {}, (40,), truth)


def test_a_cubic_decay_is_of_second_order_in_time():
    """u_t = -u^3 from u0 = 1 + cos(2 pi x) / 2: u = u0 / sqrt(1 + 2 u0^2 t)."""

    def truth(points):
        u0 = 1 + np.cos(2 * np.pi * points[:, 0]) / 2
        return (u0 / np.sqrt(1 + 2 * u0**2 * points[:, 1]),)

    stated = ParametricEquation(
        Domain((*LINE.axes, Axis("t", 0.0, 1.0))),
        (U,),
        lambda design: LinearEquation(0.0, (0.0, 1.0), ((0.0, 0.0), (0.0, 0.0))),
        (Condition("u", "t", "low", lambda points: 1 + np.cos(2 * np.pi * points[:, 0]) / 2),),
        (8, 8),
        periodic=("x",),
        time="t",
        nonlinear=lambda points, fields, design: (Nonlinear(fields[0].value ** 3, (3 * fields[0].value ** 2,)),),
    )
    falls_by_four(stated, {}, (16, 100), truth)


def test_fishers_wave_travels():
    """u_t = u_xx + u (1 - u): u = (1 + exp((x - 5 t / sqrt 6) / sqrt 6))^-2 (Ablowitz and Zeppetella, 1979)."""

    def wave(points):
        return (1 + np.exp((points[:, 0] - 5 * points[:, 1] / math.sqrt(6)) / math.sqrt(6))) ** -2

    def grown(points, fields, design):
        u = fields[0].value
        return (Nonlinear(u**2 - u, (2 * u - 1,)),)

    stated = ParametricEquation(
        Domain((Axis("x", -5.0, 10.0), Axis("t", 0.0, 3.0))),
        (U,),
        lambda design: LinearEquation(0.0, (0.0, 1.0), ((-1.0, 0.0), (0.0, 0.0))),
        (*(Condition("u", "x", end, wave) for end in ("low", "high")), Condition("u", "t", "low", wave)),
        (16, 8),
        time="t",
        nonlinear=grown,
    )
    falls_by_four(stated, {}, (60, 30), lambda points: (wave(points),))
    left = [
        imbalance(stated, {}, {"u": wave(Grid(stated.domain, c).points).reshape(c)})[0] for c in ((40, 20), (80, 40))
    ]
    assert left[0] / left[1] == pytest.approx(4, rel=0.15)


def test_two_fields_that_act_on_each_other_are_of_second_order():
    """u'' - u v = g, v'' + v' u + 3 u^2 = h, with u = cos(pi x) and v = 1 + x^2."""

    def truth(points):
        return np.cos(np.pi * points[:, 0]), 1 + points[:, 0] ** 2

    def first(points):
        u, v = truth(points)
        return -(np.pi**2) * u - u * v

    def second(points):
        u, _ = truth(points)
        return 2 + 2 * points[:, 0] * u + 3 * u**2

    def coupled(points, fields, design):
        u, v = fields
        return (
            Nonlinear(-u.value * v.value, (-v.value, -u.value)),
            Nonlinear(
                v.slope(0) * u.value + 3 * u.value**2,
                (v.slope(0) + 6 * u.value, 0),
                ((0,), (u.value,)),
            ),
        )

    sides = tuple(
        Condition(name, "x", end, float(truth(np.array([[x]]))[i][0]))
        for i, name in enumerate("uv")
        for end, x in (("low", 0.0), ("high", 1.0))
    )
    system = LinearSystem(((poisson(1, first), None), (None, poisson(1, second))), (1.0,))
    stated = ParametricEquation(LINE, (U, V), lambda design: system, sides, (8,), nonlinear=coupled)
    falls_by_four(stated, {}, (40,), truth)
    refuse_wrong_derivatives(stated, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda u: Nonlinear(u.value**2, (u.value,)),
            r"equation 1 states the derivative 0\.\d+ by u, where .* give 1\.\d+",
        ),
        (lambda u: Nonlinear(u.slope(0) ** 2, (0,)), "states the derivative 0 by the slope of u along x, where"),
        (lambda u: Nonlinear(u.value, (1.0, 1.0)), "has 2 derivatives by the fields and 0 by their slopes"),
    ],
)
def test_a_wrong_derivative_is_refused(given, message):
    def terms(points, fields, design):
        return (given(fields[0]),)

    with pytest.raises(ValueError, match=message):
        refuse_wrong_derivatives(
            ParametricEquation(LINE, (U,), lambda d: poisson(1, 0.0), ENDS, (4,), nonlinear=terms), {}
        )


def test_a_term_for_each_equation_and_a_start_for_each_field_are_asked_for():
    with pytest.raises(ValueError, match=r"start from \[1\.0, 2\.0\]: give one finite value for each of the fields u"):
        bratu(start=(1.0, 2.0))
    two = ParametricEquation(LINE, (U,), lambda d: poisson(1, 0.0), ENDS, (4,), nonlinear=lambda p, f, d: (None, None))
    with pytest.raises(ValueError, match="2 nonlinear terms for 1 fields: give one for each equation"):
        solved(two, {}, (8,))


class Hot(Problem):
    """The mean of Bratu's solution."""

    space = SearchSpace((Continuous("k", 0.5, 3.0), Continuous("q", 0.0, 1.0)))
    outputs = (Output("mean"),)

    @property
    def parametric(self):
        def equation(design):
            return LinearEquation(0.0, (0.0,), ((1.0,),), lambda points: -design["q"] + 0 * points[:, 0])

        stated = bratu()
        return ParametricEquation(LINE, (U,), equation, ENDS, (16,), nonlinear=stated.nonlinear)

    def functional(self, fields, axes, designs):
        return fields["u"].mean(axis=1, keepdims=True)


def test_the_gradient_goes_through_the_nonlinear_term():
    problem, at = Hot(), {"k": 2.0, "q": 0.5}
    found = gradient(problem, problem.parametric, at, (50,))
    for name, h in (("k", 1e-4), ("q", 1e-4)):
        ahead, behind = (solved(problem.parametric, {**at, name: at[name] + way}, (50,))["u"].mean() for way in (h, -h))
        assert found[name] == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)
