"""Fields in the part of a box that a mask leaves, against solutions that can be written down."""

import math
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation, LinearSystem, laplace, poisson
from fieldcraft.physics.parametric.edges import Edge
from fieldcraft.physics.parametric.evidence import imbalance
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.parametric.nonlinear import Nonlinear
from fieldcraft.physics.parametric.readings import readings_of
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation, no_flux
from fieldcraft.physics.parametric.transfer import at_points, on_cells

U = Field("u")
SQUARE = (Axis("x", -1.0, 1.0), Axis("y", -1.0, 1.0))
INNER, OUTER = 0.4, 0.9


def in_l(points):
    return ~((points[:, 0] > 0) & (points[:, 1] < 0))


def in_ring(points):
    r = np.hypot(points[:, 0], points[:, 1])
    return (r >= INNER) & (r <= OUTER)


def outside_hole(points):
    return np.hypot(points[:, 0], points[:, 1]) >= INNER


def near_hole(points):
    return np.hypot(points[:, 0], points[:, 1]) < (INNER + OUTER) / 2


def near_rim(points):
    return ~near_hole(points)


L, RING, PLATE = (Domain(SQUARE, mask) for mask in (in_l, in_ring, outside_hole))


def known(truth, field="u"):
    """The values of a solution on all sides of the square."""
    return tuple(Condition(field, axis, end, truth) for axis in "xy" for end in ("low", "high"))


def notch(points):
    """r^(2/3) sin(2 phi / 3), harmonic around the corner of the L and 0 on both sides of its notch."""
    x, y = points.T
    phi = np.mod(np.arctan2(y, x), 2 * math.pi)
    return np.cbrt(x**2 + y**2) * np.sin(2 * phi / 3)


def logarithm(points):
    return np.log(np.hypot(points[:, 0], points[:, 1]) / INNER)


def errors(stated, truth, cells, name="u", far=0.0):
    """Largest errors on each of these numbers of cells, at most at places farther than ``far`` from the middle."""
    found = []
    for n in cells:
        grid = Grid(stated.domain, (n, n))
        points = grid.points[grid.inside]
        away = np.hypot(points[:, 0], points[:, 1]) >= far
        found.append(np.abs(grid.picked(solved(stated, {}, (n, n))[name][0]) - truth(points))[away].max())
    return np.array(found)


def test_a_field_is_nan_where_the_centre_of_a_cell_is_masked():
    stated = ParametricEquation(L, (U,), lambda design: laplace(2), known(notch), (8, 8), edge=(Edge("u", 0.0),))
    found = solved(stated, {"a": np.zeros((3, 1))}, (4, 6))["u"]
    assert found.shape == (3, 4, 6)
    assert np.isnan(found[:, 2:, :3]).all() and np.count_nonzero(np.isnan(found)) == 3 * 6


def test_the_corner_of_an_l_is_of_order_two_thirds_and_four_thirds_away_from_it():
    # Across the edge y = 0 of the notch this solution jumps: it is asked for on the side of the domain.
    stated = ParametricEquation(L, (U,), lambda design: laplace(2), known(notch), (8, 8), edge=(Edge("u", notch),))
    there, away = errors(stated, notch, (16, 32, 64)), errors(stated, notch, (16, 32, 64), far=0.5)
    np.testing.assert_allclose(there[:-1] / there[1:], 2 ** (2 / 3), rtol=0.05)
    np.testing.assert_allclose(away[:-1] / away[1:], 2 ** (4 / 3), rtol=0.15)


def test_no_flux_along_edges_between_cells_is_of_second_order():
    def wave(points):
        return np.cos(np.pi * points[:, 0]) * np.cos(np.pi * points[:, 1])

    equation = LinearEquation(
        1.0, (0.0, 0.0), ((-1.0, 0.0), (0.0, -1.0)), lambda points: (1 + 2 * np.pi**2) * wave(points)
    )
    insulated = (Edge("u", value=0.0, slope=1.0),)
    stated = ParametricEquation(L, (U,), lambda design: equation, no_flux("u", L), (8, 8), edge=insulated)
    found = errors(stated, wave, (16, 32, 64))
    np.testing.assert_allclose(found[:-1] / found[1:], 4, rtol=0.05)


def test_values_on_a_round_edge_are_of_second_order():
    stated = ParametricEquation(RING, (U,), lambda design: laplace(2), (), (8, 8), edge=(Edge("u", logarithm),))
    found = errors(stated, logarithm, (16, 32, 64, 128))
    assert found[0] / found[-1] > 40 and found[-1] < 2e-4


@pytest.mark.parametrize(
    "edge",
    [
        (Edge("u", 0.0, part=near_hole), Edge("u", 1 / OUTER, value=0.0, slope=1.0, part=near_rim)),
        (
            Edge("u", -0.5 / INNER, value=1.0, slope=0.5, part=near_hole),
            Edge("u", lambda points: logarithm(points) + 1 / OUTER, value=1.0, slope=1.0, part=near_rim),
        ),
    ],
    ids=["value and flux", "Robin's"],
)
def test_fluxes_through_a_round_edge_are_of_first_order_at_least(edge):
    stated = ParametricEquation(RING, (U,), lambda design: laplace(2), (), (8, 8), edge=edge)
    found = errors(stated, logarithm, (32, 128))
    assert found[0] / found[1] > 4 and found[1] < 0.002  # of a field from 0 to 0.81


def test_what_flows_past_a_round_hole_comes_to_the_potential_flow():
    def potential(points):
        return points[:, 0] * (1 + INNER**2 / (points**2).sum(axis=1))

    insulated = (Edge("u", value=0.0, slope=1.0),)
    stated = ParametricEquation(PLATE, (U,), lambda design: laplace(2), known(potential), (8, 8), edge=insulated)
    found = errors(stated, potential, (16, 128))
    assert found[0] / found[1] > 2 and found[1] < 0.03


def test_a_system_has_its_conditions_on_the_edge_of_each_field():
    # u_xx + u_yy = v, v_xx + v_yy = 0 with v = 1 and u = r^2 / 4 + log r; both conditions of v lie on u's.
    def truth(points):
        return (points**2).sum(axis=1) / 4 + logarithm(points)

    minus = LinearEquation(-1.0, (0.0, 0.0), ((0.0, 0.0), (0.0, 0.0)))
    system = LinearSystem(((laplace(2), minus), (None, laplace(2))), (1.0,))
    stated = ParametricEquation(
        RING, (U, Field("v")), lambda design: system, (), (8, 8), edge=(Edge("u", truth), Edge("v", 1.0))
    )
    found = errors(stated, truth, (16, 64))
    assert found[0] / found[1] > 8 and errors(stated, lambda points: np.ones(len(points)), (16,), "v") < 1e-9


def test_in_time_a_decaying_wave_keeps_its_shape_in_the_l():
    """u = exp(-2 pi^2 D t) cos(pi x) cos(pi y) with no flux; D = 0.05."""
    domain = Domain((*SQUARE, Axis("t", 0.0, 1.0)), in_l)

    def truth(points):
        return np.exp(-0.1 * np.pi**2 * points[:, 2]) * np.cos(np.pi * points[:, 0]) * np.cos(np.pi * points[:, 1])

    stated = ParametricEquation(
        domain=domain,
        fields=(U,),
        equation=lambda design: LinearEquation(
            0.0, (0.0, 0.0, 1.0), ((-0.05, 0.0, 0.0), (0.0, -0.05, 0.0), (0.0, 0.0, 0.0))
        ),
        conditions=(*(each for each in no_flux("u", domain) if each.axis != "t"), Condition("u", "t", "low", truth)),
        cells=(8, 8, 8),
        time="t",
        edge=(Edge("u", value=0.0, slope=1.0),),
    )
    found = []
    for n in (8, 16):
        grid = Grid(domain, (n, n, n))
        fields = solved(stated, {}, (n, n, n))["u"]
        assert fields.shape == (1, n, n, n) and np.array_equal(np.isnan(fields.ravel()), ~grid.inside)
        found.append(np.abs(grid.picked(fields[0]) - truth(grid.points[grid.inside])).max())
    assert found[0] / found[1] == pytest.approx(4, rel=0.2)
    fields = {"u": solved(stated, {}, (16, 16, 16))["u"][0]}
    assert imbalance(stated, {}, fields)[0] < 0.05
    moving = replace(stated, domain=replace(domain, mask=lambda points: points[:, 0] < points[:, 2]))
    with pytest.raises(ValueError, match="is another at other times: let it not depend on 't'"):
        solved(moving, {}, (8, 8, 8))


def test_nonlinear_equations_are_solved_on_the_cells_that_are_left():
    """u_xx + u_yy - exp(u) = -r / 0.4 is solved by u = log(r / 0.4), too."""
    equation = poisson(2, lambda points: -np.hypot(points[:, 0], points[:, 1]) / INNER)
    stated = ParametricEquation(
        domain=RING,
        fields=(U,),
        equation=lambda design: equation,
        conditions=(),
        cells=(8, 8),
        nonlinear=lambda points, fields, design: (
            Nonlinear(-np.exp(fields[0].value), by_value=(-np.exp(fields[0].value),)),
        ),
        edge=(Edge("u", logarithm),),
    )
    found = errors(stated, logarithm, (16, 64))
    assert found[0] / found[1] > 8
    left = [imbalance(stated, {}, {"u": solved(stated, {}, (n, n))["u"][0]})[0] for n in (32, 64)]
    assert max(left) < 1e-8  # its own grid's equation holds


@pytest.mark.parametrize("domain", [RING, L], ids=["ring", "L"])
def test_what_an_exact_field_leaves_of_the_equation_falls_with_the_mesh(domain):
    stated = ParametricEquation(
        domain, (U,), lambda design: laplace(2), known(0.0) if domain is L else (), (8, 8), edge=(Edge("u", 0.0),)
    )

    def left(n, truth):
        grid = Grid(domain, (n, n))
        field = np.full(len(grid.points), np.nan)
        field[grid.inside] = truth(grid.points[grid.inside])
        return imbalance(stated, {}, {"u": field.reshape(n, n)})[0]

    def smooth(points):
        return logarithm(points + 1.5)

    truth = logarithm if domain is RING else smooth
    assert left(24, truth) / left(96, truth) > 10 and left(96, truth) < 0.02
    assert left(96, lambda points: truth(points) + points[:, 0] ** 2) > 0.5


@pytest.mark.parametrize("begin", [0.625, 0.47], ids=["across the ends", "with its edge beyond the last centre"])
def test_periodic_fields_see_a_hole_across_the_ends(begin):
    """The same ring of holes, cut at another place, has the same field."""
    line = (Axis("x", 0.0, 2.0), Axis("y", 0.0, 1.0))

    def made(at):
        def mask(points):
            return ~((np.mod(points[:, 0] - at, 2.0) < 0.5) & (points[:, 1] < 0.5))

        domain = Domain(line, mask)
        sides = (Condition("u", "y", "low", 0.0), Condition("u", "y", "high", 1.0))
        return ParametricEquation(
            domain, (U,), lambda design: laplace(2), sides, (8, 4), periodic=("x",), edge=(Edge("u", 2.0),)
        )

    middle, across = (solved(made(at), {}, (16, 8))["u"][0] for at in (begin, begin + 1))
    np.testing.assert_allclose(np.roll(middle, 8, axis=0), across, atol=1e-12)


def boxed(domain, cells, truth):
    grid = Grid(domain, cells)
    found = np.full(len(grid.points), np.nan)
    found[grid.inside] = truth(grid.points[grid.inside])
    return found.reshape(1, *cells)


@pytest.mark.parametrize("domain", [RING, L, PLATE], ids=["ring", "L", "hole"])
def test_a_parabola_is_carried_exactly_to_finer_cells_and_places(domain):
    def parabola(points):
        return 3 + 2 * points[:, 0] - points[:, 1] + points[:, 0] ** 2

    fine = on_cells(domain, boxed(domain, (12, 10), parabola), (48, 40), (False, False))
    np.testing.assert_allclose(fine, boxed(domain, (48, 40), parabola), atol=1e-6)
    places = np.array([[-0.6, 0.3], [-0.3, 0.5], [0.45, 0.2]])
    found = at_points(domain, boxed(domain, (12, 10), parabola), (places + 1) / 2, (False, False))
    np.testing.assert_allclose(found[0], parabola(places), atol=1e-6)


def test_a_curved_field_is_carried_to_third_order_at_the_edge():
    def error(n):
        found = on_cells(RING, boxed(RING, (n, n), logarithm), (192, 192), (False, False))
        return np.nanmax(np.abs(found - boxed(RING, (192, 192), logarithm)))

    assert error(12) < 0.04 and error(12) / error(48) > 40


def test_on_fewer_cells_fields_are_means_over_what_is_inside():
    field = boxed(L, (8, 8), lambda points: points[:, 0])
    found = on_cells(L, field, (4, 4), (False, False))
    np.testing.assert_allclose(found, boxed(L, (4, 4), lambda points: points[:, 0]), atol=1e-14)
    ones = on_cells(RING, boxed(RING, (60, 60), lambda points: np.ones(len(points))), (17, 13), (False, False))
    assert np.array_equal(np.isnan(ones[0]), ~Grid(RING, (17, 13)).inside.reshape(17, 13))
    np.testing.assert_allclose(ones[~np.isnan(ones)], 1, atol=1e-12)


def test_a_reading_that_the_mask_leaves_out_is_refused():
    stated = ParametricEquation(RING, (U,), lambda design: laplace(2), (), (8, 8), edge=(Edge("u", logarithm),))
    columns = {"x": [0.6, 0.1], "y": [0.0, 0.1], "u": [1.0, 1.0], "u_sd": [0.1, 0.1]}
    fields = xr.Dataset({name: ("place", values) for name, values in columns.items()})
    with pytest.raises(ValueError, match=r"reading 2 is at x = 0.1, y = 0.1, which the domain's mask leaves out"):
        readings_of(stated, fields)
    assert len(readings_of(stated, fields.isel(place=[0])).places) == 1


def stated(domain=L, conditions=None, edge=None):
    sides = known(notch) if conditions is None else conditions
    return ParametricEquation(
        domain, (U,), lambda design: laplace(2), sides, (8, 8), edge=(Edge("u", 0.0),) if edge is None else edge
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: stated(edge=()), "there are 0 conditions for the fields u: give one for each, as `edge`"),
        (lambda: stated(domain=Domain(SQUARE)), "the domain has none: give it a mask"),
        (lambda: stated(edge=(Edge("v", 0.0),)), "names the field 'v': the fields are u"),
        (lambda: stated(conditions=known(notch) * 2), "At the low end of 'x' there are 2 conditions"),
        (lambda: Edge("u", math.inf), "along the mask's edge is 1 u .*give finite numbers"),
        (lambda: Edge("u", 0.0, part=True), "along the mask's edge is True: give a function of the points"),
        (
            lambda: solved(stated(edge=(Edge("u", 0.0, part=lambda points: points > 0.5),)), {}, (8, 8)),
            r"gave an array of the shape \(\d+, 2\) for \d+ places: it must give True or False for each",
        ),
        (lambda: solved(stated(conditions=known(notch)[1:]), {}, (8, 8)), "mask leaves 8 cells at the low end of 'x'"),
        (
            lambda: solved(stated(edge=(Edge("u", 0.0), Edge("u", 0.0, part=near_rim))), {}, (8, 8)),
            "there are 2 conditions, and 1 are needed",
        ),
        (lambda: solved(stated(edge=(Edge("u", 0.0, part=near_rim),)), {}, (8, 8)), "there are 0 conditions"),
        (
            lambda: solved(stated(domain=Domain(SQUARE, lambda points: points[:, 0] > 2)), {}, (8, 8)),
            "mask leaves none of the 8 x 8 cells",
        ),
    ],
)
def test_a_boundary_that_is_not_stated_once_everywhere_is_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()
