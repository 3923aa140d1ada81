"""Equations against functions whose derivatives someone can write down."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.physics.operators import (
    Jet,
    LinearEquation,
    LinearSystem,
    advection_diffusion,
    as_system,
    helmholtz,
    laplace,
    poisson,
    residual,
    residuals,
)

RNG = np.random.default_rng(6)
POINTS = RNG.uniform(-1, 1, (20, 2))
X, Y = POINTS.T


def jet_of(f, fx, fy, fxx, fxy, fyy):
    one = np.ones(len(X))
    return Jet(
        value=f * one,
        gradient=np.stack([fx * one, fy * one], axis=1),
        hessian=np.stack([np.stack([fxx * one, fxy * one], axis=1), np.stack([fxy * one, fyy * one], axis=1)], axis=1),
    )


def finite_difference_jet(f, points, step=1e-3):
    """Jet of f (points (n, d) -> (n,)) by central differences."""
    n, d = points.shape
    e = step * np.eye(d)
    gradient = np.stack([(f(points + e[i]) - f(points - e[i])) / (2 * step) for i in range(d)], axis=1)
    hessian = np.empty((n, d, d))
    for i in range(d):
        for j in range(d):
            corners = [f(points + a * e[i] + b * e[j]) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
            hessian[:, i, j] = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * step**2)
    return Jet(f(points), gradient, hessian)


CUBIC = jet_of(X**3 - 3 * X * Y**2, 3 * X**2 - 3 * Y**2, -6 * X * Y, 6 * X, -6 * Y, -6 * X)
WAVE = jet_of(
    np.sin(3 * X) * np.cos(4 * Y),
    3 * np.cos(3 * X) * np.cos(4 * Y),
    -4 * np.sin(3 * X) * np.sin(4 * Y),
    -9 * np.sin(3 * X) * np.cos(4 * Y),
    -12 * np.cos(3 * X) * np.sin(4 * Y),
    -16 * np.sin(3 * X) * np.cos(4 * Y),
)
# exp((u . x) / D) solves u . grad f = D lap f for |u|^2 / D = |u|^2 / D.
U, D = (0.6, -0.8), 0.5
GROWTH = np.exp((U[0] * X + U[1] * Y) / D)
DRIFT = jet_of(
    GROWTH,
    U[0] / D * GROWTH,
    U[1] / D * GROWTH,
    (U[0] / D) ** 2 * GROWTH,
    U[0] * U[1] / D**2 * GROWTH,
    (U[1] / D) ** 2 * GROWTH,
)
SOLVED = [
    ("a harmonic cubic", laplace(2), CUBIC),
    ("a standing wave", helmholtz(2, 5.0), WAVE),
    ("a standing wave with its own source", poisson(2, lambda p: -25 * WAVE.value), WAVE),
    ("exponential drift", advection_diffusion(U, D), DRIFT),
]


@pytest.mark.parametrize(("name", "equation", "jet"), SOLVED, ids=[case[0] for case in SOLVED])
def test_a_solution_leaves_no_residual(name, equation, jet):
    assert equation.linear
    np.testing.assert_allclose(residual(equation, POINTS, jet), 0.0, atol=1e-12)


@pytest.mark.parametrize(("name", "equation", "jet"), SOLVED, ids=[case[0] for case in SOLVED])
def test_torch_jets_give_what_numpy_jets_give_and_keep_the_gradient(name, equation, jet):
    leaf = torch.as_tensor(jet.hessian).clone().requires_grad_()
    tensors = Jet(torch.as_tensor(jet.value), torch.as_tensor(jet.gradient), leaf)
    found = equation.operator(torch.as_tensor(POINTS), tensors)
    np.testing.assert_array_equal(found.detach().numpy(), equation.operator(POINTS, jet))
    (slope,) = torch.autograd.grad(found.sum(), leaf)
    coefficient = np.array([[a for a in row] for row in equation.second])
    np.testing.assert_array_equal(slope.numpy(), np.broadcast_to(coefficient, (20, 2, 2)))


def test_constant_sources_are_tensors_for_tensors_and_arrays_for_arrays():
    equation = poisson(2, 3.0)
    assert isinstance(equation.source(torch.as_tensor(POINTS)), torch.Tensor)
    np.testing.assert_array_equal(equation.source(POINTS), np.full(20, 3.0))
    flat = Jet(*(torch.zeros(shape, dtype=torch.float64) for shape in ((20,), (20, 2), (20, 2, 2))))
    np.testing.assert_array_equal(residual(equation, torch.as_tensor(POINTS), flat).numpy(), np.full(20, -3.0))


def test_all_coefficients_count_constant_and_varying():
    equation = LinearEquation(
        zeroth=lambda p: p[:, 0],
        first=(2.0, lambda p: p[:, 1] ** 2),
        second=((1.5, 0.25), (lambda p: p[:, 0] * p[:, 1], 3.0)),
        right=lambda p: p[:, 0] - p[:, 1],
    )
    expected = (
        X * WAVE.value
        + 2 * WAVE.gradient[:, 0]
        + Y**2 * WAVE.gradient[:, 1]
        + 1.5 * WAVE.hessian[:, 0, 0]
        + (0.25 + X * Y) * WAVE.hessian[:, 0, 1]
        + 3 * WAVE.hessian[:, 1, 1]
        - (X - Y)
    )
    np.testing.assert_allclose(residual(equation, POINTS, WAVE), expected, rtol=1e-13)


def test_the_hand_written_jets_agree_with_finite_differences():
    near = finite_difference_jet(lambda p: np.sin(3 * p[:, 0]) * np.cos(4 * p[:, 1]), POINTS)
    np.testing.assert_allclose(near.gradient, WAVE.gradient, atol=5e-5)
    np.testing.assert_allclose(near.hessian, WAVE.hessian, atol=5e-4)


def test_the_operator_is_linear_in_the_jet():
    equation = advection_diffusion((lambda p: p[:, 1], 2.0), 0.3, source=7.0)
    both = Jet(
        *(
            2 * a - 5 * b
            for a, b in ((WAVE.value, CUBIC.value), (WAVE.gradient, CUBIC.gradient), (WAVE.hessian, CUBIC.hessian))
        )
    )
    expected = 2 * equation.operator(POINTS, WAVE) - 5 * equation.operator(POINTS, CUBIC)
    np.testing.assert_allclose(equation.operator(POINTS, both), expected, rtol=1e-11, atol=1e-11)


def test_equations_of_the_same_numbers_are_equal():
    assert laplace(2) == laplace(2)
    assert laplace(2) != laplace(3)
    assert laplace(2) != helmholtz(2, 1.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: laplace(0), "0 first-order"),
        (lambda: LinearEquation(1.0, (0.0, 0.0), ((1.0, 0.0),)), r"2 first-order and \[2\] second-order"),
        (lambda: LinearEquation(1.0, (0.0,), ((1.0, 0.0),)), r"1 first-order and \[2\] second-order"),
        (lambda: LinearEquation(0.0, (0.0,), ((0.0,),)), "are 0: it says nothing; leave the equation out"),
        (lambda: helmholtz(2, math.inf), "is inf: give a finite number"),
        (lambda: poisson(2, math.nan), "is nan: give a finite number"),
    ],
)
def test_nonsense_is_refused_with_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()


BEND = LinearEquation(0.0, (0.0,), ((1.0,),))
MOMENT = LinearEquation(lambda p: -p[:, 0], (0.0,), ((0.0,),), right=3.0)
LOAD = LinearEquation(0.0, (0.0,), ((1.0,),), right=6.0)


def test_a_system_adds_the_blocks_of_each_row_and_their_right_hand_sides():
    x = np.linspace(0, 1, 4)
    one, nothing = np.ones(4), np.zeros((4, 1))
    f = Jet(x**4, nothing, (12 * x**2)[:, None, None])
    a = Jet(3 * x**2, nothing, (6 * one)[:, None, None])
    system = LinearSystem(blocks=((BEND, MOMENT), (None, LOAD)), sizes=(2.0,))
    np.testing.assert_allclose(system.operators(x[:, None], (f, a)), [12 * x**2 - 3 * x**3, 6 * one])
    np.testing.assert_allclose(system.sources(x[:, None]), [3 * one, 6 * one])
    np.testing.assert_allclose(residuals(system, x[:, None], (f, a))[1], 0.0)


def test_an_equation_is_the_system_of_itself_and_a_system_stays_what_it_is():
    alone = as_system(laplace(2))
    assert alone.linear
    assert alone.sizes == ()
    (found,) = residuals(alone, POINTS, (CUBIC,))
    np.testing.assert_allclose(found, residual(laplace(2), POINTS, CUBIC))
    assert as_system(alone) is alone


@pytest.mark.parametrize(
    ("blocks", "sizes", "message"),
    [
        ((), (), r"has rows of \[\] blocks: give every row 1 blocks"),
        (((BEND,),), (1.0,), r"f and 1 auxiliary fields has rows of \[1\] blocks: give every row 2"),
        (((None, None),), (1.0,), "at least one of them not None"),
        (((BEND, laplace(2)),), (1.0,), r"blocks of a system have \[1, 2\] coordinates"),
        (((BEND, MOMENT),), (0.0,), "magnitude is 0.0: give a positive number in its unit"),
    ],
)
def test_a_system_that_makes_no_sense_is_refused(blocks, sizes, message):
    with pytest.raises(ValueError, match=message):
        LinearSystem(blocks, sizes)


def test_an_array_is_no_coefficient():
    with pytest.raises(
        ValueError, match=r"is an array of the shape \(2, 1\): give a number, or a function of the points"
    ):
        LinearEquation(np.ones((2, 1)), (0.0,), ((0.0,),))
