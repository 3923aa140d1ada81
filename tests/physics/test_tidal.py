"""The tidal channel, its closed form and its simulator."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fieldcraft.physics.domain import Axis
from fieldcraft.physics.operators import Jet
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.grid import Grid
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.physics.problems.tidal import Tidal
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.physics.simulators.tidal import ChannelPyPde

HOUR, TIDE = 3600.0, 12.42 * 3600
DESIGN = {"x": 620.0, "y": 390.0, "time": 3.0}
NEAR_A_BANK = {"x": 1980.0, "y": 30.0, "time": 0.5}


def at(design, x, y, t):
    return Tidal().concentration(design, (x, y), np.array([t]))[0]


@pytest.mark.parametrize("design", [DESIGN, NEAR_A_BANK])
def test_the_closed_form_satisfies_the_equation_that_is_stated(design):
    equation = Tidal().parametric.equation(design)
    rng = np.random.default_rng(1)
    begin = design["time"] * HOUR
    points = np.column_stack(
        [
            design["x"] + rng.uniform(-150, 15, 30),
            np.clip(design["y"] + rng.uniform(-100, 100, 30), 5, 495),
            begin + rng.uniform(0.1 * HOUR, 1.5 * HOUR, 30),
        ]
    )
    steps = np.array([1.0, 1.0, 10.0])

    def f(moved):
        return np.array([at(design, *point) for point in moved])

    here = f(points)
    ahead, behind = (np.stack([f(points + sign * move) for move in np.diag(steps)], axis=1) for sign in (1, -1))
    hessian = np.zeros((30, 3, 3))
    hessian[:, range(3), range(3)] = (ahead - 2 * here[:, None] + behind) / steps**2
    found = equation.operator(points, Jet(here, (ahead - behind) / (2 * steps), hessian))
    source = equation.source(points)
    assert source.max() > 1e-4 and np.count_nonzero(source) < 30
    np.testing.assert_allclose(found, source, atol=2e-3 * source.max())


def test_nothing_gets_lost_and_no_flux_crosses_the_banks():
    problem, t = Tidal(), 20 * HOUR
    grid = Grid(problem.parametric.domain, (40, 20, 2))
    places = [(x, y) for x in grid.centres["x"] for y in grid.centres["y"]]
    for late in (t, 4 * HOUR):
        whole = np.mean([at(DESIGN, x, y, late) for x, y in places])
        assert whole == pytest.approx(100e3 / (2000 * 500 * 5), rel=1e-6)
    for x in (500.0, 900.0):
        for bank, inward in ((0.0, 1.0), (500.0, -1.0)):
            assert at(NEAR_A_BANK, x, bank, t) == pytest.approx(at(NEAR_A_BANK, x, bank + inward, t), rel=1e-5)
        assert at(DESIGN, 0.0, x / 2, t) == pytest.approx(at(DESIGN, 2000.0, x / 2, t), rel=1e-9)


def test_the_load_brings_the_peak_to_the_limit():
    problem = Tidal()
    for design in (DESIGN, NEAR_A_BANK, problem.optimum("maximize").design):
        load = problem.exact(np.array([list(design.values())]))[0]
        trace = problem.concentration(design, (1000.0, 100.0), np.linspace(0, 2 * TIDE, 40_001))
        assert load / 100 * trace.max() == pytest.approx(0.2, rel=1e-6)
        assert problem.concentration(design, (1000.0, 100.0), np.array([0.0, design["time"] * HOUR])).tolist() == [0, 0]


def test_a_peak_between_two_times_or_at_the_end_is_read_from_the_field():
    axes = Grid(Tidal().parametric.domain, (8, 8, 21)).centres
    s = np.linspace(-1, 1, 21)
    traces = np.stack([0.5 - (s - 0.033) ** 2, 0.1 * s + 0.2, 0.2 - 0.1 * s])
    fields = {"concentration": traces[:, None, None] * np.ones((8, 8, 1))}
    np.testing.assert_allclose(Tidal().functional(fields, axes, {}), [[20 / 0.5], [20 / 0.3], [20 / 0.3]], rtol=1e-12)


def test_many_designs_are_emulated_as_a_few():
    problem = Tidal()
    designs = problem.space.decode(problem.space.sample(300, np.random.default_rng(4)))
    together = {name: np.array([[design[name]] for design in designs]) for name in problem.space.names}
    some = {name: values[280:] for name, values in together.items()}
    found = problem.emulate(together)
    assert found.shape == (300, 1)
    np.testing.assert_allclose(found[280:], problem.emulate(some), rtol=1e-12)


def test_no_design_nearby_and_no_random_one_beats_the_optimum():
    problem, rng = Tidal(), np.random.default_rng(2)
    best = problem.optimum("maximize")
    problem.space.check(best.design)
    assert best.value == pytest.approx(825.3053, abs=1e-3)
    centre, low, high = np.array(list(best.design.values())), np.zeros(3), np.array([2000.0, 500.0, 12.0])
    for radius in (1e-4, 0.01, 1.0):
        steps = rng.normal(size=(40, 3)) * [30.0, 10.0, 0.2]
        assert problem.exact(np.clip(centre + radius * steps, low, high)).max() <= best.value + 1e-3
    values = problem.exact(problem.space.sample(300, rng) / 2 * high + high / 2)
    assert values.max() < best.value and values.std() == pytest.approx(problem.sd, rel=0.12)
    assert problem.optimum("minimize") is None


def test_half_a_tide_later_the_mirror_image_is_as_good_and_at_the_optimum_three_peaks_are_equal():
    problem = Tidal()
    best = problem.optimum("maximize")
    twin = np.array([[2000 - best.design["x"], 500.0, best.design["time"] + 6.21]])
    assert problem.exact(twin)[0] == pytest.approx(best.value, rel=1e-6)
    trace = problem.concentration(best.design, (1000.0, 100.0), np.linspace(0, 2 * TIDE, 4001))
    peaks = trace[1:-1][(trace[1:-1] > trace[:-2]) & (trace[1:-1] > trace[2:])]
    np.testing.assert_allclose(np.sort(peaks)[-3:], 100 / best.value * 0.2, rtol=1e-4)


def test_py_pde_and_the_stated_equation_come_to_the_same_on_one_grid():
    problem, cells = Tidal(), (32, 8, 800)

    def at_centres(design):
        """The equation with the source of each cell's centre, as py-pde has it, instead of the cell's mean."""
        equation = problem.parametric.equation(design)
        sizes = np.array(Grid(problem.parametric.domain, cells).spacing)
        return replace(equation, right=lambda points: equation.source((np.floor(points / sizes) + 0.5) * sizes))

    simulated = ChannelPyPde(cells=32, times=800).run(problem, DESIGN, np.random.default_rng(0))
    stated = solved(replace(problem.parametric, equation=at_centres), DESIGN, cells)["concentration"][0]
    given = simulated["concentration"].values
    assert np.abs(given - stated).max() < 2e-3 * given.max() and given.max() > 0.1
    truth = problem.exact(np.array([list(DESIGN.values())]))[0]
    assert problem.evaluate(DESIGN, simulated)["load"] == pytest.approx(truth, rel=0.01)


def test_the_simulation_comes_to_the_closed_form_with_the_square_of_the_cell():
    errors = []
    for cells in (32, 96):
        fields = ChannelPyPde(cells).run(Tidal(), DESIGN, np.random.default_rng(0))
        here = fields["concentration"].sel(x=531.25, y=156.25)
        truth = Tidal().concentration(DESIGN, (531.25, 156.25), fields.t.values)
        errors.append(np.abs(here.values - truth).max())
    assert errors[0] / errors[1] == pytest.approx(9, rel=0.25)


def test_a_simulation_has_mesh_solver_and_units():
    fields = ChannelPyPde(cells=16, times=24).run(Tidal(), DESIGN, np.random.default_rng(0))
    assert dict(fields.sizes) == {"x": 16, "y": 4, "t": 24}
    units = {name: variable.attrs["units"] for name, variable in fields.variables.items()}
    assert units == {"x": "m", "y": "m", "t": "s", "concentration": "g/m^3"}
    assert fields.attrs["mesh"] == "16 x 4 cells, values at their centres, at 24 times 3726 s apart"
    assert fields.attrs["solver"].startswith("py-pde 0.")
    np.testing.assert_allclose(fields.t[[0, -1]], [1863.0, 2 * TIDE - 1863.0])


def test_the_design_is_a_place_in_the_channel_and_a_time_of_the_first_tide():
    assert [(v.name, v.low, v.high, v.unit) for v in Tidal().space.variables] == [
        ("x", 0, 2000, "m"),
        ("y", 0, 500, "m"),
        ("time", 0, 12, "h"),
    ]
    assert [(output.name, output.unit) for output in Tidal().outputs] == [("load", "kg")]
    stated = Tidal().parametric
    assert stated.domain.axes[2] == Axis("t", 0.0, 2 * TIDE, "s") and (stated.time, stated.periodic) == ("t", ("x",))
    assert Tidal().velocity(np.array([TIDE / 4]))[0] == pytest.approx(0.1) and math.isclose(Tidal().sides[0], 2000)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: ChannelPyPde().run(Branin(), {}, np.random.default_rng(0)), "cannot run Branin, which is no channel"),
        (
            lambda: StatedEquation(400).run(Tidal(), DESIGN, np.random.default_rng(0)),
            "cannot run Tidal on 400 x 100 x 1600 cells, 64,000,000 in all: give it `cells` of at most 271",
        ),
        (lambda: ChannelPyPde(cells=8), "8 cells along x: choose from 16 to 512"),
        (lambda: ChannelPyPde(times=2), "at 2 times: choose from 24 to 1000"),
    ],
)
def test_what_cannot_be_simulated_is_refused(run, message):
    with pytest.raises(ValueError, match=message):
        run()
