"""The beam: its printed minimum, its mixed form, and findiff's answer within the mesh's stated error."""

import math

import numpy as np
import pytest
import torch
import xarray as xr

from fieldcraft.physics.operators import Jet, residuals
from fieldcraft.physics.problems.beam import Beam
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.simulators.beam import BeamFindiff

BEAM = Beam()
NO_CHANCE = np.random.default_rng(0)


def test_the_lowest_place_is_the_published_one():
    best = BEAM.optimum("minimize")
    assert best.value == pytest.approx(0.05760366, abs=5e-9)
    assert best.design["x"] == pytest.approx(0.88369713, abs=5e-9)
    everywhere = BEAM.exact(np.linspace(0, 1, 200_001)[:, None])
    assert best.value <= everywhere.min() <= best.value + 1e-6
    assert np.ptp(everywhere) == pytest.approx(12.749, abs=5e-4)
    assert everywhere.std() == pytest.approx(BEAM.sd, abs=5e-4)


def test_the_ends_are_the_published_ones():
    assert BEAM.ends["deflection"] == pytest.approx((6.0, 12.361363), abs=5e-7)
    assert BEAM.ends["moment"] == (1.0, math.e)


def test_the_stiffness_has_a_pole_wherever_the_curvature_changes_its_sign():
    signs = np.sign(BEAM.compliance(np.linspace(0, 1, 100_001)))
    assert np.count_nonzero(np.diff(signs)) == 26


def second_derivative(f, x):
    (first,) = torch.autograd.grad(f.sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x, retain_graph=True)[0]


def test_deflection_and_moment_satisfy_the_mixed_form_exactly():
    x = torch.linspace(0, 1, 300, dtype=torch.float64)[:, None].requires_grad_()
    fast = torch.exp(2 * x)
    w = fast * torch.sin(20 * x) + torch.sin(4 * math.pi * fast) + 0.4 * x**3 + 0.2 * x**2 + 6
    moment = torch.exp(x)
    np.testing.assert_allclose(BEAM.exact(x.detach().numpy()), w.detach().numpy()[:, 0], atol=1e-12)
    jets = tuple(
        Jet(f.detach()[:, 0], torch.full((300, 1), torch.nan), second_derivative(f, x).detach()[:, :, None])
        for f in (w, moment)
    )
    system = Beam(oracle=True).equation
    bending, loading = residuals(system, x.detach(), jets)
    assert torch.max(torch.abs(bending)) < 1e-12 * torch.max(torch.abs(jets[0].hessian))
    assert torch.max(torch.abs(loading)) < 1e-12
    assert system.linear and system.sizes[0] == pytest.approx(moment.mean().item(), rel=0.3)


def test_the_beams_physics_comes_from_its_answer_and_is_left_out_by_default():
    assert BEAM.equation is None and not BEAM.oracle
    assert Beam(oracle=True).oracle and BEAM.domain.names == ("x",)


@pytest.mark.parametrize(("cells", "error"), [(400, 4.8e-3), (800, 4.1e-4)])
def test_the_simulated_deflection_is_right_within_the_meshs_error(cells, error):
    fields = BeamFindiff(cells=cells).run(BEAM, {"x": 0.5}, NO_CHANCE)
    x = fields["x"].values
    assert np.max(np.abs(fields["deflection"].values - BEAM.exact(x[:, None]))) == pytest.approx(error, rel=0.03)
    np.testing.assert_allclose(fields["moment"], np.exp(x), rtol=1e-8)
    place = 0.7 + 1 / 3 / cells
    assert BEAM.evaluate({"x": place}, fields)["deflection"] == pytest.approx(
        BEAM.exact(np.array([[place]]))[0], abs=1.5 * error
    )


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: BeamFindiff(cells=99), "The beam simulator's grid has 99 cells: choose from 100 to 20000"),
        (lambda: BeamFindiff().run(Heat(), {}, NO_CHANCE), "The beam simulator cannot run Heat, which has no `ends`"),
        (lambda: BEAM.evaluate({"x": 0.5}, xr.Dataset()), "gave no 'deflection'"),
        (
            lambda: BEAM.evaluate({"x": 0.5}, xr.Dataset({"deflection": ("t", [1.0, 2.0])})),
            r"'deflection' has the dimensions \('t',\), not x alone",
        ),
        (
            lambda: BEAM.evaluate(
                {"x": 0.9}, xr.Dataset({"deflection": ("x", np.ones(5))}, coords={"x": np.linspace(0, 0.5, 5)})
            ),
            "x = 0.9 lies outside the field's nodes, 0 to 0.5",
        ),
    ],
)
def test_what_the_beam_cannot_do_is_refused_with_the_remedy(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()
