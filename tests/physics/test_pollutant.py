"""The spill model of the problem pollutant: its formula, its equation, its masses, and how its field is read."""

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.problems.pollutant import Pollutant, _spread
from fieldcraft.physics.simulators.exact import Exact
from fieldcraft.physics.simulators.function import Function

PROBLEM = Pollutant()
TRUTH = {"M": 10.0, "D": 0.07, "L": 1.505, "tau": 30.1525}
OTHER = {"M": 8.0, "D": 0.05, "L": 0.7, "tau": 30.2}


def formula(s, t, M, D, L, tau):
    found = M / np.sqrt(4 * np.pi * D * t) * np.exp(-(s**2) / (4 * D * t))
    if t > tau:
        found += M / np.sqrt(4 * np.pi * D * (t - tau)) * np.exp(-((s - L) ** 2) / (4 * D * (t - tau)))
    return found


def test_the_readings_and_their_misfit_are_those_of_the_formula():
    run = Function().run(PROBLEM, OTHER, np.random.default_rng(0))
    assert run["concentration"].sizes == {"station": 3, "t": 4}
    apart = 0.0
    for station, s in enumerate((0.0, 1.0, 2.5), start=1):
        for t in (15.0, 30.0, 45.0, 60.0):
            assert float(run["concentration"].sel(station=station, t=t)) == pytest.approx(
                formula(s, t, **OTHER), rel=1e-12
            )
            apart += (formula(s, t, **OTHER) - formula(s, t, **TRUTH)) ** 2
    assert PROBLEM.evaluate(OTHER, run)["misfit"] == pytest.approx(apart, rel=1e-12)
    assert PROBLEM.evaluate(TRUTH, Function().run(PROBLEM, TRUTH, np.random.default_rng(0))) == {"misfit": 0.0}


def test_what_is_released_spreads_by_diffusion_and_none_of_it_is_lost():
    s, step = np.linspace(-25.0, 27.0, 10401), 1e-3
    t = np.array([15.0, 30.0, 45.0, 60.0])
    before, now, after = (_spread(OTHER, s, t + move) for move in (-step, 0.0, step))
    bend = (now[2:] - 2 * now[1:-1] + now[:-2]) / (s[1] - s[0]) ** 2
    grown = ((after - before) / (2 * step))[1:-1]
    np.testing.assert_allclose(grown, 0.05 * bend, atol=1e-4 * np.abs(grown).max())
    np.testing.assert_allclose(now.sum(axis=0) * (s[1] - s[0]), [8.0, 8.0, 16.0, 16.0], rtol=1e-9)


def test_the_misfit_of_many_designs_is_that_of_each():
    points = np.array([list(OTHER.values()), list(TRUTH.values())])
    run = Exact().run(PROBLEM, OTHER, np.random.default_rng(0))
    assert PROBLEM.evaluate(OTHER, run)["misfit"] == PROBLEM.exact(points)[0] and PROBLEM.exact(points)[1] == 0.0


def test_a_field_without_its_places_is_refused():
    bare = xr.Dataset({"concentration": (("station", "t"), np.ones((3, 4)))})
    with pytest.raises(ValueError, match="The places along 'station' in the simulation are not the centres of equal"):
        PROBLEM.evaluate(TRUTH, bare)
    few = bare.isel(t=[0, 1]).assign_coords(station=[1.0, 2.0, 3.0], t=[22.5, 52.5])
    with pytest.raises(ValueError, match=r"has the shape \(3, 2\): give it at 3 stations and 4 times"):
        PROBLEM.evaluate(TRUTH, few)
    with pytest.raises(ValueError, match="The simulation gave no field 'concentration'"):
        PROBLEM.evaluate(TRUTH, xr.Dataset())
