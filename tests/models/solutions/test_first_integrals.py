"""Symmetries, transport and waves: solutions are functions of first integrals, or sums of such."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.solutions.first_integrals import (
    FirstIntegrals,
    along_lines,
    characteristics,
    first_integrals,
)
from fieldcraft.models.solutions.polynomial import NullSpace, particular
from fieldcraft.models.solutions.posterior import forms_of
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import Jet, LinearEquation, laplace, poisson
from fieldcraft.physics.problems.dropwave import DropWave

BASIS = PhysicsInformed("basis")


def first_order(*along, zeroth=0.0, right=0.0):
    """sum_i along_i f_i + zeroth f = right."""
    d = len(along)
    return LinearEquation(zeroth, along, ((0.0,) * d,) * d, right)


def column(i, factor=1.0, less=0.0):
    return lambda points: factor * (points[:, i] - less)


ROUND = first_order(column(1, -1.0), column(0))
ELLIPSES = first_order(column(1, -1.0, 1.5), column(0, 2.0, -0.4))
DOUBLY = first_order(column(1, -1.0), column(0), column(3, -1.0), column(2))
UNEQUAL = first_order(column(1, -1.0), column(0), column(3, -2.0), column(2, 2.0))
FIELDS = {
    "a line": (first_order(1.0, 0.5), 2),
    "lines in space": (first_order(1.0, -2.0, 0.5), 3),
    "circles": (ROUND, 2),
    "ellipses off the centre": (ELLIPSES, 2),
    "hyperbolas": (first_order(column(0, -1.0), column(1)), 2),
    "an axis": (first_order(column(1, -1.0), column(0), 0.0), 3),
    "a screw on a plane": (first_order(column(1), 0.0, 0.0), 3),
    "two circles at once": (DOUBLY, 4),
    "rays": (first_order(column(0, 1.0, -4.0), column(1, 1.0, -5.0)), 2),
    "powers": (first_order(column(0, 1.0, -4.0), column(1, -2.5, 5.0), column(2, 0.5, -4.0)), 3),
    "a power and a line": (first_order(column(0, 1.0, -4.0), 2.0), 2),
    "homogeneous of degree 1.5": (first_order(column(0, 1.0, -4.0), column(1, 1.0, -5.0), zeroth=-1.5), 2),
    "decay on a line": (first_order(1.0, 0.5, zeroth=0.3), 2),
    "decay that grows on a line": (first_order(1.0, 0.5, zeroth=column(0, 0.2)), 2),
}


def observed(equation, d, function, n, seed=0, noise=0.0, half=3.0, X=None):
    rng = np.random.default_rng(seed)
    drawn, Z = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, (32, d))
    X = drawn if X is None else X
    physics = Physics(equation, half * Z, np.zeros(d), np.full(d, half))
    y = function(half * X) + noise * rng.standard_normal(len(X))
    return Observations(X, y, maximize=False, physics=physics, noise_sd=noise)


def nothing(points):
    return points[:, 0]


def integrals(equation, d):
    return FirstIntegrals.of(*first_integrals(observed(equation, d, nothing, 2).physics), None)


def fit(data):
    return BASIS.fit(data, np.random.default_rng(1), None, no_report)


def error(posterior, function, d=2, half=3.0):
    """Root mean square error relative to the function's standard deviation, over the box."""
    X = np.random.default_rng(99).uniform(-1, 1, (400, d))
    truth = function(half * X)
    found = posterior.scaling.to_physical(posterior.mean_var(torch.from_numpy(X))[0].numpy())
    return float(np.sqrt(np.mean((found - truth) ** 2)) / truth.std())


def radius(points):
    return np.hypot(*points.T)


@pytest.mark.parametrize(("equation", "d"), FIELDS.values(), ids=FIELDS)
def test_functions_of_first_integrals_solve_the_equation_and_tell_the_lines_apart(equation, d):
    space = integrals(equation, d)
    X = torch.from_numpy(np.random.default_rng(7).uniform(-1, 1, (20, d)))
    along = np.stack([b(3 * X.numpy()) if callable(b) else np.full(len(X), b) for b in equation.first], axis=1)
    features = torch.func.vmap(torch.func.jacrev(lambda x: space.features(x[None])[0]))(X)
    images = torch.einsum("nkd,nd->nk", features, torch.from_numpy(along)) / 3
    lost = equation.zeroth(3 * X.numpy()) if callable(equation.zeroth) else np.full(len(X), equation.zeroth)
    images += torch.from_numpy(lost)[:, None] * space.features(X)
    assert float(images.abs().max()) < 1e-9 * float(features.abs().max())
    slopes = torch.func.vmap(torch.func.jacrev(lambda x: space.levels(x[None])[0]))(X)
    assert space.orders.shape[1] == d - 1
    assert torch.linalg.matrix_rank(slopes).tolist() == [d - 1] * len(X)


@pytest.mark.parametrize(("equation", "center", "factor"), [(ROUND, (0.0, 0.0), 1.0), (ELLIPSES, (-0.4, 1.5), 2.0)])
def test_closed_lines_are_told_apart_by_their_distance_from_the_centre(equation, center, factor):
    space = integrals(equation, 2)
    X = np.random.default_rng(7).uniform(-1, 1, (50, 2))
    away = 3 * X - center
    ratio = space.levels(torch.from_numpy(X))[:, 0].numpy() / np.sqrt(factor * away[:, 0] ** 2 + away[:, 1] ** 2)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_where_units_do_not_count_they_are_a_ratio_of_powers():
    space = integrals(FIELDS["powers"][0], 3)
    X = np.random.default_rng(7).uniform(-1, 1, (50, 3))
    logarithms = np.log(np.abs(3 * X - [-4.0, 5.0, -4.0]))
    levels = space.levels(torch.from_numpy(X)).numpy()
    powers, *_ = np.linalg.lstsq(np.column_stack([logarithms, np.ones(50)]), levels, rcond=None)
    np.testing.assert_allclose(np.array([1.0, -2.5, 0.5]) @ powers[:3], 0, atol=1e-9)
    np.testing.assert_allclose(logarithms @ powers[:3] + powers[3], levels, atol=1e-9)


def test_a_function_of_a_ratio_is_learnt_and_restored():
    def ratio(points):
        return np.exp(-2 * np.log((points[:, 0] + 3.3) / (points[:, 1] + 3.3)) ** 2)

    data = observed(first_order(column(0, 1.0, -3.3), column(1, 1.0, -3.3)), 2, ratio, 20, noise=0.001)
    posterior = fit(data)
    assert isinstance(posterior.solutions, FirstIntegrals)
    assert error(posterior, ratio) < 0.1
    again = BASIS.restore(data, posterior.state())
    Z = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (9, 2)))
    assert all(map(torch.equal, again.mean_var(Z), posterior.mean_var(Z)))


def test_about_an_axis_they_are_the_place_along_it_and_the_distance_from_it():
    space = integrals(FIELDS["an axis"][0], 3)
    X = np.random.default_rng(7).uniform(-1, 1, (50, 3))
    along, away = space.levels(torch.from_numpy(X)).numpy().T
    for level, expected in ((along, X[:, 2]), (away, np.hypot(X[:, 0], X[:, 1]))):
        np.testing.assert_allclose(level / expected, level[0] / expected[0], rtol=1e-9)


def test_the_cosines_add_up_to_a_function_that_is_steep_at_the_ends_of_the_box():
    space = integrals(FIELDS["a line"][0], 2)
    X = np.random.default_rng(7).uniform(-1, 1, (2000, 2))
    steep = np.exp(X[:, 1] - 0.5 * X[:, 0])
    features = space.features(torch.from_numpy(X)).numpy()
    weights = np.linalg.lstsq(features, steep, rcond=1e-12)[0]
    assert np.abs(features @ weights - steep).max() < 1e-8


def test_the_slopes_in_the_centre_itself_are_zero():
    space = integrals(ROUND, 2)
    slopes = torch.autograd.functional.jacobian(
        lambda X: space.features(X).sum(0), torch.zeros(1, 2, dtype=torch.float64)
    )
    assert float(slopes.abs().max()) == 0.0


@pytest.mark.parametrize(
    ("equation", "d"),
    [
        (laplace(2), 2),
        (first_order(column(0), 0.0, zeroth=-1.0), 2),  # x h(y): x itself is a solution, but not every function of it
        (first_order(1.0), 1),
        (first_order(column(0), column(1)), 2),  # x / y has no logarithm, as the box is on both sides of zero
        (UNEQUAL, 4),  # the third says how far one circle runs ahead of the other
        (first_order(*(1.0,) * 6), 6),
    ],
    ids=["second order", "growth", "one variable", "rays", "unequal circles", "six variables"],
)
def test_other_equations_have_none_that_are_looked_for(equation, d):
    assert first_integrals(observed(equation, d, nothing, 2).physics) is None


def test_an_equation_that_is_not_linear_is_refused_as_such():
    class Steep:
        linear = False

        def operator(self, points, jet):
            return (jet.gradient**2).sum(1)

        def source(self, points):
            return 1.0 + 0.0 * points[:, 0]

    with pytest.raises(ValueError, match="The equation is not linear and engine basis adds up its solutions"):
        along_lines(observed(Steep(), 2, nothing, 2).physics, None)


def test_coefficients_that_vanish_or_have_no_value_in_the_corners_are_no_hindrance():
    vanishing = first_order(lambda p: p[:, 0] - p[:, 1], lambda p: p[:, 0] - p[:, 1])
    assert first_integrals(observed(vanishing, 2, nothing, 2).physics) is not None
    axial = LinearEquation(0.0, (lambda p: 1 / (p[:, 0] + 3), 0.0), ((1.0, 0.0), (0.0, 1.0)))
    assert [type(each) for each in forms_of(observed(axial, 2, nothing, 2).physics, 8)] == [NullSpace]
    steep = first_order(lambda p: 1 / (p[:, 0] + 3), 1.0)
    assert len(along_lines(observed(steep, 2, nothing, 2).physics, None)) == 1


def test_rings_are_learnt_where_polynomials_cannot_follow_and_a_smooth_bowl_by_polynomials():
    def rings(points):
        return np.cos(10 * radius(points))

    def bowl(points):
        return radius(points) ** 2 - 0.05 * radius(points) ** 4

    # One at each of 40 distances from the centre, up to the corners.
    angles = np.pi / 4 + 2 * np.pi * np.arange(40) / 4
    X = np.sqrt(2) * np.linspace(0, 1, 40)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    found = [fit(observed(ROUND, 2, function, 0, noise=0.001, X=X)) for function in (rings, bowl)]
    assert [type(each.solutions) for each in found] == [FirstIntegrals, NullSpace]
    said = {"solutions": "functions of what the equation keeps constant along its lines, not polynomials"}
    assert [each.remarks for each in found] == [said, {}]
    assert error(found[0], rings) < 0.02
    assert error(found[1], bowl) < 0.02


WAVES = {
    "along and against": LinearEquation(0.0, (0.0, 0.0), ((4.0, 0.0), (0.0, -1.0))),
    "mixed": LinearEquation(0.0, (0.0, 0.0), ((1.0, 1.5), (1.5, 2.0))),
}


@pytest.mark.parametrize("equation", WAVES.values(), ids=WAVES)
def test_a_wave_is_the_sum_of_a_function_of_either_characteristic(equation):
    space = FirstIntegrals.of(*characteristics(observed(equation, 2, nothing, 2).physics), 30, crossed=False)
    assert sorted(space.orders.tolist()) == sorted([[k, 0] for k in range(31)] + [[0, k] for k in range(1, 31)])
    X = torch.from_numpy(np.random.default_rng(7).uniform(-1, 1, (20, 2)))
    bends = torch.func.vmap(torch.func.hessian(lambda x: space.features(x[None])[0]))(X)
    images = torch.einsum("nkij,ij->nk", bends, torch.tensor(equation.second, dtype=torch.float64))
    assert float(images.abs().max()) < 1e-9 * float(bends.abs().max())
    slopes = torch.func.vmap(torch.func.jacrev(lambda x: space.levels(x[None])[0]))(X)
    assert torch.linalg.matrix_rank(slopes).tolist() == [2] * len(X)


def test_only_a_wave_equation_has_characteristics():
    others = (laplace(2), ROUND, LinearEquation(0.0, (1.0, 0.0), ((4.0, 0.0), (0.0, -1.0))))
    assert [characteristics(observed(each, 2, nothing, 2).physics) for each in others] == [None] * 3


def test_two_pulses_that_pass_each_other_are_learnt_and_restored():
    def pulses(points):
        x, t = points.T
        return np.exp(-3 * (x - 2 * t) ** 2 / 4) - 0.7 * np.exp(-3 * (x + 2 * t - 3) ** 2 / 4)

    data = observed(WAVES["along and against"], 2, pulses, 60, noise=0.001)
    posterior = fit(data)
    assert isinstance(posterior.solutions, FirstIntegrals)
    assert error(posterior, pulses) < 0.1
    again = BASIS.restore(data, posterior.state())
    Z = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (9, 2)))
    assert all(map(torch.equal, again.mean_var(Z), posterior.mean_var(Z)))


@pytest.mark.parametrize("rate", [0.5, 5.0])
def test_a_pulse_that_decays_as_it_moves_is_learnt(rate):
    def pulse(points):
        x, t = points.T
        return np.exp(-2 * (t - 0.5 * x) ** 2 - rate * (x + 3.0))

    X = np.random.default_rng(3).uniform(-1, 1, (60, 2))
    X[:, 0] = X[:, 0] / 5 - 0.8  # where there is something left
    data = observed(first_order(1.0, 0.5, zeroth=rate), 2, pulse, 0, X=X)
    posterior = fit(data)
    assert isinstance(posterior.solutions, FirstIntegrals)
    assert error(posterior, pulse) < 0.02


def test_where_no_polynomial_solves_the_equation_the_first_integrals_are_taken():
    physics = observed(first_order(1.0, 0.5, zeroth=0.5), 2, nothing, 4).physics
    assert [type(each) for each in forms_of(physics, 3)] == [FirstIntegrals]
    assert [type(each) for each in forms_of(physics, 30)] == [NullSpace, FirstIntegrals]


@pytest.mark.parametrize("seed", range(3))
def test_what_moves_on_unchanged_is_learnt_beside_a_source(seed):
    def moved(points):
        return points[:, 1] - 0.5 * points[:, 0] + points[:, 0] ** 2

    equation = first_order(1.0, 0.5, right=column(0, 2.0))
    assert error(fit(observed(equation, 2, moved, 12, seed=seed)), moved) < 0.05


def test_the_particular_solution_has_the_lowest_degree_that_suffices():
    data = observed(poisson(2, lambda points: 12 * points[:, 0] ** 2), 2, nothing, 4)
    for degree in (5, 12):
        polynomials, coefficients = particular(data.physics, data.scaling, degree)
        used = polynomials.degrees[:, coefficients.numpy() != 0]
        assert used.max() == 4
    with pytest.raises(ValueError, match="Polynomials of degree 3 leave"):
        particular(data.physics, data.scaling, 3)


def test_the_form_that_was_chosen_is_restored_bit_for_bit():
    problem = DropWave()
    data = observed(problem.equation, 2, problem.exact, 40, noise=0.01, half=5.12)
    posterior = fit(data)
    assert isinstance(posterior.solutions, FirstIntegrals)
    again = BASIS.restore(data, posterior.state())
    Z = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (9, 2)))
    assert all(map(torch.equal, again.mean_var(Z), posterior.mean_var(Z)))
    assert again.remarks == posterior.remarks and "solutions" in again.remarks


def bent(values):
    return values + torch.sin(values)


STATED = {
    "only the distance from (a, b) counts": (
        first_order(column(1, -1.0, 1.0), column(0, 1.0, 2.0)),
        lambda x, y: bent((x - 2) ** 2 + (y - 1) ** 2),
    ),
    "the result is carried along": (first_order(0.7, 1.0), lambda x, t: bent(x - 0.7 * t)),
    "decays at the rate k": (
        first_order(0.7, 1.0, zeroth=0.4),
        lambda x, t: bent(x - 0.7 * t) * torch.exp(-0.4 * t),
    ),
    "only the ratio x / y counts": (first_order(column(0), column(1)), lambda x, y: bent(x / y)),
    "only the product x^a y^b counts": (first_order(column(0, 3.0), column(1, -2.0)), lambda x, y: bent(x**2 * y**3)),
    "make 2^m times the result": (
        first_order(column(0), column(1), zeroth=-1.5),
        lambda x, y: bent(x / y) * y**1.5,
    ),
    "waves run in both directions": (
        LinearEquation(0.0, (0.0, 0.0), ((-0.49, 0.0), (0.0, 1.0))),
        lambda x, t: bent(x - 0.7 * t) + (x + 0.7 * t) ** 3,
    ),
}


@pytest.mark.parametrize(("known", "stated"), STATED.items(), ids=STATED)
def test_what_the_page_tells_to_state_is_what_is_known_and_is_learnt_by_first_integrals(known, stated):
    equation, function = stated
    page = (Path(__file__).resolve().parents[3] / "docs/methods.md").read_text()
    assert known in page
    places = torch.from_numpy(np.random.default_rng(3).uniform(0.5, 1.5, (20, 2)))

    def at(point):
        return function(*point)

    slopes, bends = (torch.func.vmap(take(at))(places) for take in (torch.func.jacrev, torch.func.hessian))
    left = equation.operator(places, Jet(torch.func.vmap(at)(places), slopes, bends))
    assert float(left.abs().max()) < 1e-12 * float(bends.abs().max())
    physics = Physics(equation, places.numpy(), np.ones(2), np.full(2, 0.5))
    assert len(along_lines(physics, None)) == 1
