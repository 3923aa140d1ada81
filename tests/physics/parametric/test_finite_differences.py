"""Stated equations on a grid against solutions that can be written down."""

import math
from itertools import product

import numpy as np
import pytest

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import Jet, LinearEquation, LinearSystem, helmholtz, poisson
from fieldcraft.physics.parametric.discretisation import Discretisation
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation, no_flux
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips

LINE = Domain((Axis("x", 0.0, 2.0, "m"),))
PLATE = Domain((Axis("x", 0.0, 1.0), Axis("y", -1.0, 1.0)))
U = Field("u", "K")


def on_line(equation, *conditions):
    return ParametricEquation(LINE, (U,), equation, conditions, (8,))


def error(stated, design, cells, truth):
    """Largest error of the field u at the cells' centres."""
    return np.abs(solved(stated, design, cells)["u"].reshape(-1) - truth(Grid(stated.domain, cells).points)).max()


def falls_by_four(stated, design, cells, truth):
    coarse = error(stated, design, cells, truth)
    fine = error(stated, design, tuple(2 * n for n in cells), truth)
    assert 0 < fine < coarse and coarse / fine == pytest.approx(4, rel=0.15)


def test_centres_cover_the_domain_in_the_order_of_the_axes():
    grid = Grid(PLATE, (2, 4))
    np.testing.assert_allclose(grid.centres["y"], [-0.75, -0.25, 0.25, 0.75])
    np.testing.assert_allclose(
        grid.points[:5], [[0.25, -0.75], [0.25, -0.25], [0.25, 0.25], [0.25, 0.75], [0.75, -0.75]]
    )
    assert grid.spacing == (0.5, 0.5)


@pytest.mark.parametrize(
    "conditions",
    [
        (Condition("u", "x", "low", math.sin(0)), Condition("u", "x", "high", math.sin(2))),
        (Condition("u", "x", "low", -math.cos(0), value=0.0, slope=1.0), Condition("u", "x", "high", math.sin(2))),
        (
            Condition("u", "x", "low", 2 * math.sin(0) - 3 * math.cos(0), value=2.0, slope=3.0),
            Condition("u", "x", "high", -math.sin(2) + 0.5 * math.cos(2), value=-1.0, slope=0.5),
        ),
        (Condition("u", "x", "low", math.sin(0)), Condition("u", "x", "low", -math.cos(0), value=0.0, slope=1.0)),
    ],
    ids=["values", "flux and value", "Robin", "two at one end"],
)
def test_each_kind_of_condition_gives_the_sine_in_second_order(conditions):
    stated = on_line(lambda design: helmholtz(1, 1.0), *conditions)
    falls_by_four(stated, {}, (32,), lambda points: np.sin(points[:, 0]))


@pytest.mark.parametrize("one", [1, np.int64(1), np.float32(1)], ids=lambda one: type(one).__name__)
def test_whole_and_short_numbers_are_coefficients_like_others(one):
    conditions = Condition("u", "x", "low", 0.0), Condition("u", "x", "high", 4.0)
    stated = on_line(lambda design: LinearEquation(0 * one, (0 * one,), ((one,),), 2 * one), *conditions)
    np.testing.assert_allclose(solved(stated, {}, (8,))["u"][0], Grid(LINE, (8,)).centres["x"] ** 2, atol=0.02)


def test_varying_coefficients_with_drift_and_decay_in_the_plane_are_of_second_order():
    """u = cos(pi x) (1 + y^2): (1 + x) u_xx + u_yy + y u_x - x u_y - 2 u = g, no flux in x, values that vary in y."""

    def truth(points):
        x, y = points.T
        return np.cos(np.pi * x) * (1 + y**2)

    def source(points):
        x, y = points.T
        c, s = np.cos(np.pi * x), np.sin(np.pi * x)
        second = -(1 + x) * np.pi**2 * c * (1 + y**2) + 2 * c
        return second - y * np.pi * s * (1 + y**2) - 2 * x * y * c - 2 * c * (1 + y**2)

    equation = LinearEquation(
        -2.0,
        (lambda points: points[:, 1], lambda points: -points[:, 0]),
        ((lambda points: 1 + points[:, 0], 0.0), (0.0, 1.0)),
        source,
    )
    sides = no_flux("u", PLATE)[:2] + tuple(Condition("u", "y", end, truth) for end in ("low", "high"))
    falls_by_four(ParametricEquation(PLATE, (U,), lambda design: equation, sides, (8, 8)), {}, (24, 32), truth)


def decaying(design):
    """u'' - k^2 u = 0."""
    return LinearEquation(lambda points: -(design["k"] ** 2) + 0 * points[:, 0], (0.0,), ((1.0,),))


ENDS = (Condition("u", "x", "low", 1.0), Condition("u", "x", "high", value=0.0, slope=1.0))


@pytest.mark.parametrize("cells", [40, 300], ids=["dense", "sparse"])
def test_many_designs_are_solved_as_each_by_itself(cells):
    stated, k = on_line(decaying, *ENDS), np.array([[0.5], [1.0], [3.0]])
    together = solved(stated, {"k": k}, (cells,))["u"]
    assert together.shape == (3, cells)
    x = Grid(LINE, (cells,)).centres["x"]
    for row, value in zip(together, k[:, 0], strict=True):
        np.testing.assert_allclose(row, solved(stated, {"k": value}, (cells,))["u"][0], rtol=1e-10)
        np.testing.assert_allclose(row, np.cosh(value * (2 - x)) / np.cosh(2 * value), atol=0.5 / cells)


def test_a_source_alone_that_depends_on_the_design_is_solved_for_all_at_once():
    stated = on_line(lambda design: poisson(1, lambda points: design["q"] + 0 * points[:, 0]), *ENDS)
    found = solved(stated, {"q": np.array([[1.0], [-2.0]])}, (50,))["u"]
    x = Grid(LINE, (50,)).centres["x"]
    for row, q in zip(found, (1.0, -2.0), strict=True):
        # The end's value lies between a cell and its ghost, whose mean has an error of h^2 / 8 times u'' = q.
        np.testing.assert_allclose(row, 1 + q * (x**2 / 2 - 2 * x), atol=1.01 * 0.04**2 / 8 * abs(q))


def test_an_equation_without_the_design_has_the_same_field_for_each():
    found = solved(on_line(lambda design: poisson(1, 1.0), *ENDS), {"q": np.zeros((3, 1))}, (20,))["u"]
    assert found.shape == (3, 20) and np.array_equal(found[0], found[2])


def test_a_uniform_cantilever_has_the_deflection_of_beam_theory():
    """w = q (x^4 - 4 L x^3 + 6 L^2 x^2) / (24 E I), and the compliance q^2 L^5 / (20 E I)."""
    stiffness = 70e9 * 0.05 * 0.02**3 / 12
    problem, design = CantileverProfile(), dict.fromkeys(CantileverProfile().space.names, np.full((1, 1), 20.0))
    errors = []
    for cells in (20, 40):
        fields = solved(problem.parametric, design, (cells,))
        x = Grid(problem.parametric.domain, (cells,)).centres["x"]
        exact = 500 * (x**4 - 4 * x**3 + 6 * x**2) / (24 * stiffness)
        errors.append(np.abs(fields["deflection"][0] - exact).max() / exact.max())
    assert errors[1] < 1e-3 and errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert problem.exact(np.full((1, 5), 20.0))[0] == pytest.approx(500**2 / (20 * stiffness), rel=1e-13)
    assert problem.on_grid(design, (400,))[0, 0] == pytest.approx(5.357143, rel=1e-4)


def test_the_chips_plate_satisfies_the_equation_that_is_stated():
    problem, design = Chips(), {"x1": 40.0, "y1": 30.0, "x2": 95.0, "y2": 60.0}
    series = problem.temperature(design)
    points = np.random.default_rng(0).uniform([5, 5], [115, 75], (40, 2))
    h = 0.05

    def at(dx, dy):
        return np.array([series.on(np.array([x + dx]), np.array([y + dy]))[0, 0] for x, y in points])

    here = at(0, 0)
    hessian = np.zeros((40, 2, 2))
    hessian[:, 0, 0] = (at(h, 0) - 2 * here + at(-h, 0)) / h**2
    hessian[:, 1, 1] = (at(0, h) - 2 * here + at(0, -h)) / h**2
    equation = problem.parametric.of(design)
    source = equation.source(points)
    assert source.max() > 1.5 * source.min()
    found = equation.operator(points, Jet(here, np.zeros((40, 2)), hessian))
    np.testing.assert_allclose(found, source, atol=1e-3 * source.max())


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (lambda: Grid(PLATE, (4,)), "give one number an axis"),
        (lambda: Grid(LINE, (1,)), "each at least 2"),
        (lambda: Condition("u", "x", "low", value=0.0), "a value or a slope that is not 0"),
        (lambda: Condition("u", "x", "low", math.nan), "give finite numbers"),
        (
            lambda: Condition("u", "x", "low", lambda at: at[:, 0], math.nan),
            "nan u .* = a function of the points: give",
        ),
        (lambda: on_line(decaying, Condition("v", "x", "low"), ENDS[1]), "names the field 'v' and the axis 'x'"),
        (lambda: on_line(decaying, ENDS[0]), "Across the axis 'x' there are 1 conditions.*give 2, two for each field"),
        (lambda: ParametricEquation(LINE, (U, U), decaying, ENDS, (8,)), "each its own name"),
        (lambda: ParametricEquation(LINE, U, decaying, ENDS, (8,)), "`fields` is a single Field: give a tuple"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS[0], (8,)), "`conditions` is a single Condition"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS, 8), r"has the cells 8: .* such as \(8,\)"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS, [8]), r"has the cells \[8\]: give a tuple"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS, (0,)), r"has the cells \(0,\): .* each at least 2"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS, (8.5,)), r"has the cells \(8.5,\): .* whole numbers"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS, ()), r"has the cells \(\): .* one for each axis"),
        (lambda: ParametricEquation(LINE, (U,), decaying, ENDS, (8, 8)), r"over x has the cells \(8, 8\)"),
        (lambda: Condition("u", "x", "low", "hot"), "the low end of 'x' has 'hot': give numbers"),
        (lambda: Condition("u", "x", "low", 1j), "has 1j: give numbers"),
        (lambda: Domain(Axis("x", 0.0, 1.0)), "`axes` is a single Axis: give a tuple, with a comma"),
    ],
)
def test_a_statement_that_cannot_be_is_refused(stated, message):
    with pytest.raises(ValueError, match=message):
        stated()


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        (lambda design: poisson(1, math.nan), "is nan"),
        (lambda design: poisson(1, lambda points: np.log(points[:, 0] - 1.0)), "is nan at a cell: it must be finite"),
        (
            lambda design: LinearSystem(((poisson(1, 0.0), None), (None, poisson(1, 0.0))), (1.0,)),
            "2 equations of 2 fields",
        ),
        (lambda design: None, "The equation of a design is None: let the function return a LinearEquation"),
        (lambda design: LinearEquation(0.0, (0.0,), ((1j,),)), "is complex: it must be real"),
        (
            lambda design: poisson(1, lambda points: np.ones(3)),
            r"of the shape \(3,\) at 8 points: it must be one number",
        ),
        (
            lambda design: LinearEquation(lambda points: np.ones(3), (0.0,), ((1.0,),)),
            r"of the shape \(1, 3\) at 8 points: it must be one number for each, \(8,\), or \(n, 8\) for n designs",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_equation_that_cannot_be_solved_is_refused(equation, message):
    with pytest.raises(ValueError, match=message):
        solved(on_line(equation, *ENDS), {}, (8,))


def test_a_side_that_is_given_another_number_of_values_is_refused():
    stated = on_line(decaying, Condition("u", "x", "low", lambda points: np.ones(7)), ENDS[1])
    with pytest.raises(ValueError, match=r"condition at the boundary gave an array of the shape \(7,\) for 1 places"):
        solved(stated, {"k": 1.0}, (8,))


def test_mixed_derivatives_are_refused():
    equation = LinearEquation(0.0, (0.0, 0.0), ((1.0, 0.5), (0.5, 1.0)))
    stated = ParametricEquation(PLATE, (U,), lambda design: equation, no_flux("u", PLATE), (4, 4))
    with pytest.raises(ValueError, match=r"mixed second derivatives.*an `emulate` of its own"):
        solved(stated, {}, (4, 4))


@pytest.mark.parametrize("k", [0.0, np.zeros((2, 1))], ids=["one design", "two designs"])
def test_conditions_that_leave_a_field_free_are_refused(k):
    stated = on_line(decaying, *no_flux("u", LINE))
    assert np.isfinite(solved(stated, {"k": 1.0}, (8,))["u"]).all()
    with pytest.raises(ValueError, match="has no unique solution on its grid"):
        solved(stated, {"k": k}, (8,))


def test_a_grid_is_taken_apart_once():
    stated = Chips().parametric
    assert Discretisation.of(stated, (12, 8)) is Discretisation.of(Chips().parametric, (12, 8))


@pytest.mark.parametrize("around", [(), ("x",), ("x", "y")])
def test_an_equation_that_fixes_its_field_up_to_a_constant_is_refused_on_every_grid(around):
    plane = Domain((Axis("x", 0.0, 1.0), Axis("y", 0.0, 1.0)))
    sides = tuple(each for each in no_flux("u", plane) if each.axis not in around)
    stated = ParametricEquation(
        domain=plane,
        fields=(Field("u"),),
        equation=lambda design: LinearEquation(0.0, (0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), 1.0),
        conditions=sides,
        cells=(8, 8),
        periodic=around,
    )
    for cells in product(range(8, 33, 4), (8, 12, 16, 20)):
        with pytest.raises(ValueError, match="no unique solution"):
            solved(stated, {"a": 1.0}, cells)
