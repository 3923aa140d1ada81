"""Fields on one grid, on another: polynomials and integrals that can be written down."""

import numpy as np
import pytest
import xarray as xr

from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric import transfer
from fieldcraft.physics.parametric.finite_differences import solved
from fieldcraft.physics.parametric.statement import Field, ParametricEquation, no_flux
from fieldcraft.physics.parametric.transfer import carried, fewer, finer, stated_fields


def centres(n):
    return (np.arange(n) + 0.5) / n


def test_a_cubic_is_interpolated_exactly_along_each_axis():
    def field(nx, ny):
        x, y = centres(nx)[:, None], centres(ny)
        return np.stack([x**3 - 2 * y**2 + x * y, 4 * y**3 - x])

    found = carried(field(5, 4), (11, 12), (False, False))
    np.testing.assert_allclose(found, field(11, 12), atol=1e-13)


@pytest.mark.parametrize(("given", "power"), [(3, 2), (2, 1)])
def test_few_cells_have_splines_of_lower_degree(given, power):
    found = carried(centres(given)[None] ** power, (6,), (False,))
    np.testing.assert_allclose(found[0], centres(6) ** power, atol=1e-14)


def test_a_peak_between_cells_is_seen_to_fourth_order():
    def error(n):
        field = np.cos(2 * np.pi * (centres(n) - 0.5))  # its top lies between two centres, and on one of 99
        return abs(carried(field[None], (99,), (False,)).max() - 1)

    assert error(8) / error(16) > 12
    assert error(16) < 1e-4 < 1 - np.cos(np.pi / 16)


def test_what_repeats_is_interpolated_across_its_ends_as_within():
    def errors(around):
        wave = np.sin(2 * np.pi * (centres(12) - 0.1))
        found = carried(wave[None], (48,), (around,))[0]
        return np.abs(found - np.sin(2 * np.pi * (centres(48) - 0.1)))

    repeated, ended = errors(True), errors(False)
    assert repeated.max() < 1e-3 < 10 * repeated.max() < ended.max()
    shifted = carried(np.roll(np.eye(5)[:1], 2, axis=1), (15,), (True,))
    np.testing.assert_allclose(shifted, np.roll(carried(np.eye(5)[:1], (15,), (True,)), 6, axis=1), atol=1e-14)


def test_averages_keep_the_integral_and_know_that_of_a_line():
    rng = np.random.default_rng(3)
    field = rng.standard_normal((2, 9, 10))
    found = carried(field, (4, 10), (False, True))
    assert found.shape == (2, 4, 10)
    np.testing.assert_allclose(found.mean(axis=(1, 2)), field.mean(axis=(1, 2)), atol=1e-14)
    np.testing.assert_allclose(carried(centres(12)[None], (4,), (False,))[0], centres(4), atol=1e-15)


def test_means_over_a_long_axis_are_those_over_a_short_one_without_a_matrix_of_all_its_cells(monkeypatch):
    field = np.random.default_rng(2).standard_normal((2, 9, 25))
    short = carried(field, (4, 11), (False, False))
    monkeypatch.setattr(transfer, "_WHOLE", 0)
    transfer._overlaps.cache_clear()
    try:
        np.testing.assert_allclose(carried(field, (4, 11), (False, False)), short, rtol=1e-13)
        assert transfer._overlaps(25, 11).nnz < 11 * 5
    finally:
        transfer._overlaps.cache_clear()
    (found,) = carried(centres(40_000)[None], (10_000,), (False,))  # 3.2 GB with all its zeros
    np.testing.assert_allclose(found, centres(10_000), atol=1e-12)


def test_the_same_cells_are_the_same_field():
    field = np.random.default_rng(1).standard_normal((3, 5, 6))
    np.testing.assert_array_equal(carried(field, (5, 6), (False, True)), field)


def test_grids_for_many_designs_have_few_cells():
    assert finer((24, 16)) == (96, 64) and finer((10,)) == (40,)
    assert finer((60, 50)) == (180, 150) and finer((40, 40, 20)) == (40, 40, 20)
    assert fewer((96, 64)) == (96, 64)
    assert fewer((1000, 1000)) == (100, 100) and fewer((4_000_000,)) == (10_000,)
    assert fewer((2, 2, 1_000_000)) == (2, 2, 2500) and fewer((1, 50_000)) == (1, 10_000)


def test_a_source_narrower_than_a_cell_enters_nearly_whole_wherever_it_lies():
    # u - u'' = q without flux: the integral of u is that of q, which is 1. By Poisson's summation the centres of cells
    # of length 1 are wrong by 2 exp(-2 pi^2 spread^2) at most, and two Gauss points by |cos(pi / sqrt(3))| of that.
    line = Domain((Axis("x", 0.0, 10.0),))
    spread = 0.4

    def equation(design):
        def source(points):
            return np.exp(-(((points[:, 0] - design["at"]) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))

        return LinearEquation(1.0, (0.0,), ((-1.0,),), source)

    stated = ParametricEquation(line, (Field("u", ""),), equation, no_flux("u", line), (10,))
    places = np.linspace(4, 6, 21)[:, None]
    totals = solved(stated, {"at": places}, (10,))["u"].sum(axis=1)
    by_centres = equation({"at": places}).source(centres(10)[:, None] * 10).sum(axis=1)
    most = 2 * np.exp(-2 * (np.pi * spread) ** 2)
    assert np.abs(by_centres - 1).max() == pytest.approx(most, rel=1e-3)
    assert np.abs(totals - 1).max() == pytest.approx(most * abs(np.cos(np.pi / np.sqrt(3))), rel=1e-3)


def test_complex_values_are_refused_and_not_cut_to_their_real_parts():
    line = Domain((Axis("s", 0.0, 1.0),))

    def rod(right):
        def equation(design):
            return LinearEquation(1.0, (0.0,), ((-1.0,),), right)

        return ParametricEquation(line, (Field("u"),), equation, no_flux("u", line), (4,))

    simulation = xr.Dataset({"u": ("s", np.ones(4) + 1j)}, coords={"s": centres(4)})
    with pytest.raises(ValueError, match="The field 'u' of the simulation has complex values: give real ones"):
        stated_fields(rod(1.0), simulation)
    with pytest.raises(ValueError, match="The field 'u' of the simulation has truth values: give real ones"):
        stated_fields(rod(1.0), simulation.real > 0)
    with pytest.raises(
        ValueError, match="right-hand side or nonlinear term of the stated equation is complex: it must be"
    ):
        solved(rod(lambda points: points[:, 0] + 1j), {}, (4,))
