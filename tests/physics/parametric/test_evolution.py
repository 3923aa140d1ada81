"""Stated equations in time, and periodic ones, against solutions that can be written down."""

import math

import numpy as np
import pytest

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, LinearSystem, helmholtz
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation, no_flux

U = Field("u", "K")
X, T = Axis("x", 0.0, 1.0, "m"), Axis("t", 0.0, 0.5, "s")
SPACE_TIME = Domain((X, T))


def evolving(equation, *conditions, domain=SPACE_TIME, fields=(U,), periodic=()):
    return ParametricEquation(domain, fields, equation, conditions, (8,) * len(domain.axes), periodic, "t")


def error(stated, cells, truth, design=None):
    """Largest error of the field u at the centres of cells in space and time."""
    return np.abs(solved(stated, design or {}, cells)["u"].reshape(-1) - truth(Grid(stated.domain, cells).points)).max()


def falls_by_four(stated, cells, truth):
    coarse, fine = (error(stated, tuple(factor * n for n in cells), truth) for factor in (1, 2))
    assert 0 < fine < coarse and coarse / fine == pytest.approx(4, rel=0.15)


def heat(k):
    """u_t - k u_xx = 0."""
    return lambda design: LinearEquation(0.0, (0.0, 1.0), ((-k, 0.0), (0.0, 0.0)))


COLD = (Condition("u", "x", "low"), Condition("u", "x", "high"))


def test_heat_decays_as_its_sine_in_second_order_of_space_and_time():
    begin = Condition("u", "t", "low", lambda points: np.sin(np.pi * points[:, 0]))
    stated = evolving(heat(0.3), *COLD, begin)

    def truth(points):
        return np.exp(-0.3 * np.pi**2 * points[:, 1]) * np.sin(np.pi * points[:, 0])

    falls_by_four(stated, (16, 8), truth)
    in_time = [error(stated, (400, steps), truth) for steps in (6, 12)]
    assert in_time[0] / in_time[1] == pytest.approx(4, rel=0.15)


def test_coefficients_and_sides_may_vary_in_time():
    """u = (1 + t^2) e^x: (1 + t) u_t - (2 + sin t) u_xx + t u_x - u = g, a value and a flux that grow."""

    def truth(points):
        x, t = points.T
        return (1 + t**2) * np.exp(x)

    def source(points):
        x, t = points.T
        return ((1 + t) * 2 * t - (1 + np.sin(t) - t + 2) * (1 + t**2)) * np.exp(x)

    equation = LinearEquation(
        -1.0,
        (lambda points: points[:, 1], lambda points: 1 + points[:, 1]),
        ((lambda points: -2 - np.sin(points[:, 1]), 0.0), (0.0, 0.0)),
        source,
    )
    sides = (
        Condition("u", "x", "low", truth),
        Condition("u", "x", "high", truth, value=0.0, slope=1.0),
        Condition("u", "t", "low", lambda points: 3 * truth(points), value=3.0),
    )
    falls_by_four(evolving(lambda design: equation, *sides), (12, 8), truth)


def drifting(points, shift=0.0):
    """A Gaussian of variance 0.05^2 + 2 D t about the middle, carried by 0.8 sin(12 t) around a ring of length 1."""
    x, t = points.T
    variance = 0.05**2 + 2 * 0.01 * t
    away = x - 0.5 - shift - 0.8 / 12 * (1 - np.cos(12 * t))
    images = away[:, None] + np.arange(-4, 5)
    return np.exp(-(images**2) / (2 * variance[:, None])).sum(1) / np.sqrt(2 * np.pi * variance)


def carried(design):
    """u_t + 0.8 sin(12 t) u_x - 0.01 u_xx = 0."""
    return LinearEquation(0.0, (lambda points: 0.8 * np.sin(12 * points[:, 1]), 1.0), ((-0.01, 0.0), (0.0, 0.0)))


@pytest.mark.parametrize("shift", [0.0, 0.5], ids=["in the middle", "across the ends"])
def test_a_gaussian_in_an_oscillating_drift_goes_around_a_ring_in_second_order(shift):
    begin = Condition("u", "t", "low", lambda points: drifting(points, shift))
    stated = evolving(carried, begin, periodic=("x",))
    falls_by_four(stated, (80, 80), lambda points: drifting(points, shift))
    whole = solved(stated, {}, (40, 30))["u"].mean(axis=1)
    np.testing.assert_allclose(whole, 1.0, rtol=1e-9)


def test_a_field_that_repeats_in_steady_state_is_of_second_order():
    """u'' - u = g with u = cos(2 pi x - 1), around a ring and across a ring whose other axis is insulated."""

    def truth(points):
        return np.cos(2 * np.pi * points[:, 0] - 1)

    def source(points):
        return -(1 + 4 * np.pi**2) * truth(points)

    for axes in ((X,), (X, Axis("y", 0.0, 2.0))):
        domain = Domain(axes)
        d = len(axes)
        second = tuple(tuple(float(i == j) for j in range(d)) for i in range(d))
        equation = LinearEquation(-1.0, (0.0,) * d, second, source)
        sides = tuple(each for each in no_flux("u", domain) if each.axis != "x")
        stated = ParametricEquation(domain, (U,), lambda design, e=equation: e, sides, (8,) * d, periodic=("x",))
        falls_by_four(stated, (16, 4)[:d], truth)


def test_waves_are_a_system_of_two_rates():
    """u_t = v, v_t = u_xx around a ring: u = cos(2 pi x - 1) cos 2 pi t."""
    rate = LinearEquation(0.0, (0.0, 1.0), ((0.0, 0.0), (0.0, 0.0)))
    bend = LinearEquation(0.0, (0.0, 0.0), ((-1.0, 0.0), (0.0, 0.0)))
    minus = LinearEquation(-1.0, (0.0, 0.0), ((0.0, 0.0), (0.0, 0.0)))
    system = LinearSystem(((rate, minus), (bend, rate)), (1.0,))
    begin = (
        Condition("u", "t", "low", lambda points: np.cos(2 * np.pi * points[:, 0] - 1)),
        Condition("v", "t", "low"),
    )
    stated = evolving(lambda design: system, *begin, fields=(U, Field("v")), periodic=("x",))
    falls_by_four(
        stated, (32, 32), lambda points: np.cos(2 * np.pi * points[:, 0] - 1) * np.cos(2 * np.pi * points[:, 1])
    )


def test_an_equation_without_a_rate_holds_at_every_moment():
    """u_t = w, w = 0.3 u_xx: heat, whose rate is a field of its own and has a wrong value at the beginning."""
    rate = LinearEquation(0.0, (0.0, 1.0), ((0.0, 0.0), (0.0, 0.0)))
    minus = LinearEquation(-1.0, (0.0, 0.0), ((0.0, 0.0), (0.0, 0.0)))
    bend = LinearEquation(0.0, (0.0, 0.0), ((0.3, 0.0), (0.0, 0.0)))
    system = LinearSystem(((rate, minus), (bend, minus)), (1.0,))
    sides = (*COLD, Condition("w", "x", "low"), Condition("w", "x", "high"), Condition("w", "t", "low", 7.0))
    begin = Condition("u", "t", "low", lambda points: np.sin(np.pi * points[:, 0]))
    stated = evolving(lambda design: system, *sides, begin, fields=(U, Field("w")))
    alone = evolving(heat(0.3), *COLD, begin)
    found, expected = (solved(each, {}, (20, 10))["u"] for each in (stated, alone))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_jump_at_the_beginning_leaves_ripples_of_some_hundredths():
    """A hot bar between cold ends, on fine cells with few steps, against its Fourier series at later times."""
    stated = evolving(heat(1.0), *COLD, Condition("u", "t", "low", 1.0))
    found, grid = solved(stated, {}, (400, 20))["u"][0], Grid(SPACE_TIME, (400, 20)).centres
    n = np.arange(1, 400, 2)
    along, decay = np.sin(np.outer(grid["x"], n * np.pi)), np.exp(-np.outer(n**2, np.pi**2 * grid["t"]))
    series = (4 / (np.pi * n) * along) @ decay
    assert np.abs(found - series)[:, 4:].max() < 0.03


def test_many_designs_go_through_time_as_each_by_itself():
    def equation(design):
        """u_t - k u_xx = q e^-t."""
        return LinearEquation(
            0.0,
            (0.0, 1.0),
            ((lambda points: -design["k"] + 0 * points[:, 0], 0.0), (0.0, 0.0)),
            lambda points: design["q"] * np.exp(-points[:, 1]),
        )

    stated = evolving(equation, *COLD, Condition("u", "t", "low", lambda points: np.sin(np.pi * points[:, 0])))
    k, q = np.array([[0.1], [0.1], [1.0]]), np.array([[0.0], [3.0], [3.0]])
    for given in (k, 0.1):
        together = solved(stated, {"k": given, "q": q}, (30, 12))["u"]
        assert together.shape == (3, 30, 12)
        for i in range(3):
            own = {"k": np.broadcast_to(given, (3, 1))[i, 0], "q": q[i, 0]}
            np.testing.assert_allclose(together[i], solved(stated, own, (30, 12))["u"][0], rtol=1e-10, atol=1e-13)
    assert not np.allclose(together[0], together[1])


BEGIN = Condition("u", "t", "low")


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (lambda: evolving(heat(1.0), BEGIN, domain=Domain((T,))), "must be the last, after at least one axis of space"),
        (lambda: evolving(heat(1.0), *COLD, BEGIN, domain=Domain((T, X))), "Time is 't' among the axes t, x"),
        (lambda: evolving(heat(1.0), *COLD), "there are values of no field in 0 conditions: give one for each"),
        (lambda: evolving(heat(1.0), *COLD, Condition("u", "t", "high")), "values of no field in 1 conditions"),
        (lambda: evolving(heat(1.0), *COLD, BEGIN, BEGIN), "values of u, u in 2 conditions"),
        (lambda: evolving(heat(1.0), *COLD, Condition("u", "t", "low", slope=1.0)), "values of no field"),
        (lambda: evolving(heat(1.0), BEGIN), "Across the axis 'x' there are 0 conditions.*give 2, two for each"),
        (lambda: evolving(heat(1.0), *COLD, BEGIN, periodic=("x",)), "fields that repeat along it have none"),
        (
            lambda: evolving(heat(1.0), *COLD, BEGIN, periodic=("t",)),
            "along 't', which is no axis of space: those are x",
        ),
    ],
)
def test_a_statement_in_time_that_cannot_be_is_refused(stated, message):
    with pytest.raises(ValueError, match=message):
        stated()


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        (LinearEquation(0.0, (0.0, 1.0), ((-1.0, 0.0), (0.0, 1.0))), "second derivative by time: state it as a system"),
        (helmholtz(1, 1.0), "1 first derivatives over a domain of 2 axes: give one for each of x, time"),
        (LinearEquation(0.0, (lambda p: np.full(len(p), math.nan), 1.0), ((1.0, 0.0), (0.0, 0.0))), "is nan at a cell"),
    ],
)
def test_an_equation_that_cannot_evolve_is_refused(equation, message):
    with pytest.raises(ValueError, match=message):
        solved(evolving(lambda design: equation, *COLD, BEGIN), {}, (8, 4))
