"""The heat problem against listed temperatures, a sine-transform solver and Laplace's equation."""

import numpy as np
import pytest
import xarray as xr
from plate import LISTED, PLACES, SETS, SIDE, dataset, transformed_field

from fieldcraft.physics.functions.harmonic import SquareSeries, modes_needed, sine_coefficients
from fieldcraft.physics.problems.heat import Heat

EXTREMA = {
    (1, "maximize"): (1774.5600, 6.025655, 0.1, 4),
    (2, "maximize"): (576.3224, 6.183185, 5.926209, 4),
    (3, "maximize"): (521.3116, 0.1, 5.985328, 4),
    (1, "minimize"): (-1.506190, 4.746442, 6.183185, 6),
    (2, "minimize"): (-90.343920, 0.1, 4.836101, 6),
    (3, "minimize"): (-196.092293, 6.183185, 4.917400, 6),
}


@pytest.mark.parametrize("boundary", SETS)
def test_the_exact_temperature_has_the_listed_values(boundary):
    np.testing.assert_allclose(Heat(boundary).exact(PLACES), LISTED[boundary], rtol=0, atol=5.1e-7)


@pytest.mark.parametrize(("boundary", "sense"), EXTREMA)
def test_the_optimum_is_the_listed_one(boundary, sense):
    value, x, y, digits = EXTREMA[boundary, sense]
    found = Heat(boundary).optimum(sense)
    assert found.value == pytest.approx(value, abs=0.51 * 10**-digits)
    assert (found.design["x"], found.design["y"]) == pytest.approx((x, y), abs=5.1e-7)
    Heat(boundary).space.check(found.design)


@pytest.mark.parametrize("boundary", SETS)
def test_no_point_of_the_search_box_beats_the_optimum(boundary):
    problem = Heat(boundary)
    low, high = problem.space.decode([[-1, -1], [1, 1]])
    points = np.random.default_rng(0).uniform(low["x"], high["x"], (1500, 2))
    temperatures = problem.exact(points)
    assert problem.optimum("minimize").value < temperatures.min()
    assert temperatures.max() < problem.optimum("maximize").value


def test_the_optimum_moves_with_the_margin():
    wide, narrow = Heat(2, margin=0.3), Heat(2)
    best = wide.optimum("maximize")
    assert max(best.design["x"], best.design["y"]) == pytest.approx(SIDE - 0.3)
    assert best.value < narrow.optimum("maximize").value
    assert wide.exact(np.array([[best.design["x"], best.design["y"]]]))[0] == best.value


@pytest.mark.parametrize("boundary", SETS)
def test_the_exact_temperature_satisfies_laplaces_equation(boundary):
    problem, h = Heat(boundary), 1e-3
    points = np.random.default_rng(1).uniform(0.15, SIDE - 0.15, (40, 2))
    steps = h * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
    east, west, north, south = (problem.exact(points + step) for step in steps)
    centre = problem.exact(points)
    along_x, along_y = (east - 2 * centre + west) / h**2, (north - 2 * centre + south) / h**2
    # Truncation leaves h^2 / 12 of a fourth derivative, which 0.15 from the edge is at most some 500 second ones.
    size = np.maximum(np.abs(along_x), 1.0)
    assert np.max(np.abs(along_x + along_y) / size) < 2e-3
    assert np.max(np.abs(along_x)) > 1.0


@pytest.mark.parametrize("edge", ["x-", "x+", "y-", "y+"])
def test_the_temperature_goes_to_that_of_the_edge(edge):
    problem, d, along = Heat(2), 0.04, np.linspace(1.5, 4.5, 9)

    def at(distance):
        across = np.full(9, distance if edge[1] == "-" else SIDE - distance)
        return problem.exact(np.stack([across, along] if edge[0] == "x" else [along, across], axis=1))

    extrapolated = 3 * at(d) - 3 * at(2 * d) + at(3 * d)
    np.testing.assert_allclose(extrapolated, problem.edges[edge](along), atol=0.002 * problem.sd)


@pytest.mark.parametrize("boundary", SETS)
def test_the_standard_deviation_is_that_of_a_fine_field_of_the_plate(boundary):
    assert float(transformed_field(Heat(boundary), 1024)["temperature"].std()) == pytest.approx(
        Heat(boundary).sd, abs=0.006
    )


@pytest.mark.parametrize("boundary", SETS)
def test_a_reading_adds_little_to_the_error_of_the_mesh(boundary):
    problem = Heat(boundary)
    points = np.random.default_rng(2).uniform(0.1, SIDE - 0.1, (200, 2))
    exact = problem.exact(points)
    fields = transformed_field(problem, 128)
    read = np.array([problem.evaluate({"x": x, "y": y}, fields)["temperature"] for x, y in points])
    # Root of the mean square of mesh and interpolation error together; the campaign's noise is 0.02 sd.
    assert np.sqrt(np.mean((read - exact) ** 2)) < 0.002 * problem.sd


def test_a_reading_of_a_cubic_field_is_exact():
    x, y = np.linspace(0.1, 6, 30), np.linspace(0.2, 6.1, 41) ** 1.1
    cubic = dataset((x**3 - x)[:, None] * (1 + y - y**3), x, y)
    for at_x, at_y in ((0.1, 0.9), (6.0, 3.3), (2.345, 1.234), (5.99, 7.2), (x[7], y[11])):
        expected = (at_x**3 - at_x) * (1 + at_y - at_y**3)
        assert Heat().evaluate({"x": at_x, "y": at_y}, cubic)["temperature"] == pytest.approx(expected, rel=1e-10)
        assert Heat().evaluate({"x": at_x, "y": at_y}, cubic.transpose("y", "x"))["temperature"] == pytest.approx(
            expected
        )


def test_a_reading_looks_at_the_four_nearest_cells_of_each_axis():
    x = np.arange(12.0)
    for place, first in ((5.5, 4), (5.01, 4), (0.5, 0), (11.0, 8)):
        far = np.ones((12, 12))
        far[first : first + 4, first : first + 4] = 0
        assert Heat().evaluate({"x": place, "y": place}, dataset(far, x, x))["temperature"] == 0


def test_the_problem_is_the_plate_with_a_margin():
    problem = Heat(3, margin=0.25)
    problem.space.check({"x": 0.25, "y": SIDE - 0.25})
    assert [(v.name, v.unit) for v in problem.space.variables] == [("x", "m"), ("y", "m")]
    assert problem.domain.names == problem.space.names
    np.testing.assert_array_equal(problem.domain.bounds, [[0, 0], [SIDE, SIDE]])
    assert [(o.name, o.unit) for o in problem.outputs] == [("temperature", "K")]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Heat(4), "no boundary set 4: choose 1, 2 or 3"),
        (lambda: Heat(2, margin=0.0), "margin is 0.0 m: choose one from 0.02 to 3"),
        (lambda: Heat(2, margin=float("nan")), "margin is nan m"),
        (
            lambda: Heat().exact(np.array([[1.0, 0.01]])),
            "lies 0.01 m from the plate's edge: the exact temperature is known",
        ),
        (lambda: Heat().exact(np.array([[1.0, 7.0]])), "from the plate's edge"),
        (lambda: Heat().exact(np.array([[1.0, np.nan]])), "lies nan m from"),
        (lambda: Heat().evaluate({"x": 1.0, "y": 1.0}, xr.Dataset({"heat": 1.0})), "gave no field 'temperature'"),
        (
            lambda: Heat().evaluate({"x": 0.1, "y": 1.0}, transformed_field(Heat(), 16)),
            "x = 0.1 m lies outside the field's nodes, 0.19635 to 6.08684 m: simulate on more cells",
        ),
    ],
)
def test_nonsense_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_the_series_of_a_sine_is_that_sine_alone():
    edges = (lambda s: 3 * np.sin(2 * np.pi * s / 4), *(lambda s: 0 * s,) * 3)
    coefficients = sine_coefficients(edges, 4.0, 64)
    expected = np.zeros((4, 64))
    expected[0, 1] = 3
    np.testing.assert_allclose(coefficients, expected, atol=1e-13)
    points = np.random.default_rng(3).uniform(0, 4, (700, 2))
    k = np.pi / 2
    known = 3 * np.sin(k * points[:, 1]) * np.sinh(k * (4 - points[:, 0])) / np.sinh(4 * k)
    np.testing.assert_allclose(SquareSeries(4.0, coefficients)(points), known, atol=1e-12)


def test_the_series_of_a_square_root_edge_has_its_known_coefficients():
    from scipy.special import fresnel

    (found,) = sine_coefficients((np.sqrt,), 1.0, 200)
    n = np.arange(1, 201)
    # int_0^1 sqrt(y) sin(n pi y) dy by parts: (-(-1)^n + C(sqrt(2 n)) / sqrt(2 n)) / (n pi), C the Fresnel cosine.
    known = 2 * (-((-1.0) ** n) + fresnel(np.sqrt(2 * n))[1] / np.sqrt(2 * n)) / (n * np.pi)
    np.testing.assert_allclose(found, known, atol=1e-13)


def test_more_terms_are_needed_nearer_the_edge():
    assert modes_needed(SIDE, 0.1) == 1024
    assert modes_needed(SIDE, 0.02) == 4096
    near = np.array([[0.1, 2.0], [3.0, 0.1]])
    series = SquareSeries(SIDE, sine_coefficients(tuple(Heat().edges.values()), SIDE, 2048))
    np.testing.assert_allclose(Heat().exact(near), series(near), rtol=1e-12)


def test_no_points_have_no_temperatures():
    assert Heat().exact(np.empty((0, 2))).shape == (0,)
