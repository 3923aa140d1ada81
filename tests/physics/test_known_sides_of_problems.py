"""Problems of which sides are known: their equations by automatic differentiation, their optima by a dense grid."""

import dataclasses

import numpy as np
import pytest
import torch

from fieldcraft.physics.operators import Jet, residual
from fieldcraft.physics.problems import burgers, l_shape, poisson, thermal_wave
from fieldcraft.physics.problems.burgers import Burgers
from fieldcraft.physics.problems.l_shape import LShape
from fieldcraft.physics.problems.poisson import Poisson
from fieldcraft.physics.problems.thermal_wave import ThermalWave

PROBLEMS = [ThermalWave(), Burgers(), Poisson(), LShape()]
IDS = ["thermal_wave", "burgers", "poisson", "l_shape"]


def jet_of(function, points):
    """Value, gradient and Hessian of a function of points (n, d), by automatic differentiation."""
    x = torch.tensor(points, requires_grad=True)
    value = function(x)
    (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    rows = [torch.autograd.grad(part.sum(), x, retain_graph=True)[0] for part in gradient.unbind(1)]
    return x.detach(), Jet(value.detach(), gradient.detach(), torch.stack(rows, dim=1))


def corner(p):
    """The membrane over the L, for torch."""
    x, y = p.unbind(1)
    phi = 3 * torch.pi / 4 + torch.atan2(-(x + y), y - x)  # the polar angle, with its cut in the notch
    squares = x.square() + y.square()
    return squares.pow(1 / 3) * torch.sin(2 * phi / 3) - squares / 2


@pytest.mark.parametrize(
    ("problem", "function"),
    [
        (ThermalWave(), thermal_wave._temperature),
        (Burgers(), burgers._velocity),
        (Poisson(), poisson._height),
        (LShape(), corner),
    ],
    ids=IDS,
)
def test_the_exact_solution_leaves_no_residual(problem, function):
    low, high = problem.domain.bounds
    points = low + (high - low) * np.random.default_rng(0).random((200, 2))
    points = points[problem.domain.contains(points)]
    np.testing.assert_allclose(function(torch.tensor(points)), problem.exact(points), rtol=1e-12)
    x, jet = jet_of(function, points)
    left = residual(problem.equation, x, jet)
    terms = jet.value.abs() + jet.gradient.abs().sum(1) + jet.hessian.abs().sum((1, 2))
    assert float((left.abs() / terms).max()) < 1e-12


@pytest.mark.parametrize("problem", PROBLEMS, ids=IDS)
@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_the_optimum_is_that_of_a_dense_grid(problem, sense):
    best = problem.optimum(sense)
    if best is None:
        assert (sense, problem) == ("minimize", Poisson())
        return
    low, high = problem.domain.bounds
    axes = [np.linspace(low[i], high[i], 1201) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    grid = grid[problem.domain.contains(grid)]
    sign = 1 if sense == "minimize" else -1
    values = sign * problem.exact(grid)
    assert sign * best.value <= values.min() + 1e-15 <= sign * best.value + 1e-4 * np.ptp(values)
    place = np.array(list(best.design.values()))
    assert problem.exact(place[None])[0] == pytest.approx(best.value, rel=1e-14)
    nearest = grid[values <= values.min() + 1e-12]
    assert np.min(np.abs(nearest - place) / (high - low), axis=0) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS, ids=IDS)
def test_the_standard_deviation_is_that_over_the_domain(problem):
    low, high = problem.domain.bounds
    axes = [low[i] + (high[i] - low[i]) * (np.arange(1000) + 0.5) / 1000 for i in range(2)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    assert problem.exact(grid[problem.domain.contains(grid)]).std() == pytest.approx(problem.sd, rel=1e-4)


@pytest.mark.parametrize(("known", "form"), [("value", (1.0, 0.0)), ("flux", (0.0, 1.0)), ("robin", (1.0, 0.5))])
def test_what_is_known_of_the_membrane_is_value_flux_or_both(known, form):
    (condition,) = Poisson(known).conditions
    assert (condition.value, condition.slope) == form and (condition.axis, condition.end) == ("y", "low")
    side = np.column_stack([np.linspace(0, 1, 9), np.zeros(9)])
    _, jet = jet_of(poisson._height, side)
    expected = form[0] * jet.value - form[1] * jet.gradient[:, 1]
    np.testing.assert_allclose(condition.right(side), expected, rtol=1e-12)


def test_a_membrane_of_which_something_else_is_known_is_refused():
    with pytest.raises(ValueError, match="knows nothing called 'slope': choose value, flux or robin"):
        dataclasses.replace(Poisson(), known="slope")


def test_the_slope_at_the_notch_has_no_bound_and_the_sides_of_the_notch_are_zero_but_for_the_load():
    distance = np.array([1e-2, 1e-4, 1e-6])
    up = np.column_stack([-distance, distance]) / np.sqrt(2)
    np.testing.assert_allclose(LShape().exact(up) / distance, distance ** (-1 / 3) - distance / 2, rtol=1e-9)
    along = np.linspace(0.1, 1, 7)
    for edge in (np.column_stack([along, 0 * along]), np.column_stack([0 * along, -along])):
        np.testing.assert_allclose(LShape().exact(edge), -(along**2) / 2, atol=1e-15)
    assert l_shape._in_l(np.array([[0.5, 0.0], [0.0, -0.5], [0.0, 0.0]])).all()
