from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fieldcraft.models.equations.residuals import GeneralResidual, LinearResidual, linear_rows, residual
from fieldcraft.models.networks.perceptron import Network, Streams
from fieldcraft.models.observations import Physics, Scaling
from fieldcraft.physics.operators import LinearEquation, advection_diffusion, laplace

CENTER, HALF = np.array([1.0, -2.0]), np.array([0.5, 3.0])
SCALING = Scaling(mean=4.0, sd=2.5, sign=-1.0)
VARYING = LinearEquation(
    zeroth=lambda p: p[:, 0],
    first=(2.0, lambda p: p[:, 1] ** 2),
    second=((1.0, lambda p: p[:, 0] * p[:, 1]), (0.5, 3.0)),
    right=lambda p: p[:, 0] - p[:, 1],
)


@dataclass(frozen=True)
class Undeclared:
    """A linear equation that does not say so: it takes the way of the nonlinear ones."""

    equation: LinearEquation
    linear: bool = False

    def operator(self, points, jet):
        return self.equation.operator(points, jet)

    def source(self, points):
        return self.equation.source(points)


def physics(equation, n=6):
    encoded = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return Physics(equation, CENTER + HALF * encoded, CENTER, HALF)


def of_one_field(streams):
    """Streams (k, n, ...) as those of k trainings of one field, (k, 1, n, ...)."""
    return Streams(*(part[:, None] for part in (streams.value, streams.gradient, streams.second)))


def readings(network, theta, points):
    """The result that a network's target means, as a function of physical coordinates."""

    def y(x):
        encoded = (x - torch.from_numpy(CENTER)) / torch.from_numpy(HALF)
        return SCALING.mean + SCALING.sign * SCALING.sd * network.value(theta, encoded[None])[0, 0]

    return torch.tensor(points), y


@pytest.mark.parametrize("wrap", [lambda equation: equation, Undeclared])
@pytest.mark.parametrize("equation", [VARYING, advection_diffusion((1.0, -2.0), 0.3, 5.0), laplace(2)])
def test_the_residual_is_that_of_the_reading_in_physical_coordinates(equation, wrap):
    network = Network(2, 6, 2)
    theta = network.initial(1, torch.Generator().manual_seed(1))
    given = physics(wrap(equation))
    missed = residual(given, SCALING)
    assert isinstance(missed, LinearResidual if given.equation.linear else GeneralResidual)
    rows = missed.rows(of_one_field(network.streams(theta, missed.points, missed.forms)))[0, 0]
    points, y = readings(network, theta, given.points)
    scale = linear_rows(physics(equation), SCALING, given.points)[0].scale
    for i, x in enumerate(points):
        slope, bend = torch.func.grad(y)(x), torch.func.hessian(y)(x)

        def at(c, x=x):
            return c(x[None])[0] if callable(c) else c

        image = at(equation.zeroth) * y(x) + sum(at(c) * s for c, s in zip(equation.first, slope, strict=True))
        image = image + sum(at(equation.second[i][j]) * bend[i, j] for i in range(2) for j in range(2))
        expected = SCALING.sign * (image - at(equation.right)) / (SCALING.sd * scale)
        sign = 1.0 if given.equation.linear else SCALING.sign  # a squared residual does not see the sign
        torch.testing.assert_close(sign * rows[i], expected, rtol=0, atol=1e-10)


def test_an_equation_whose_coefficients_are_not_finite_is_refused():
    broken = LinearEquation(zeroth=lambda p: p[:, 0] * np.nan, first=(0.0, 0.0), second=((1.0, 0.0), (0.0, 1.0)))
    with pytest.raises(ValueError, match="largest coefficient over its collocation points is nan"):
        residual(physics(broken), SCALING)


@pytest.mark.parametrize("wrap", [lambda equation: equation, Undeclared])
def test_a_right_hand_side_that_is_not_finite_is_refused(wrap):
    pole = LinearEquation(0.0, (0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)), right=lambda p: p[:, 0] / (p[:, 0] < 1.2))
    given = physics(wrap(pole))
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="right-hand side is inf at"):
        residual(given, SCALING)


@dataclass(frozen=True)
class Product:
    """f f_x = g, or f_xx f_yy - f_xy^2 = g (Monge and Ampere): nothing but products of unknowns."""

    of_bends: bool
    linear: bool = False

    def operator(self, points, jet):
        bend = jet.hessian
        if self.of_bends:
            return bend[:, 0, 0] * bend[:, 1, 1] - bend[:, 0, 1] * bend[:, 1, 0]
        return jet.value * jet.gradient[:, 0]

    def source(self, points):
        return 4.0 + 0.0 * points[:, 0] if self.of_bends else points[:, 0]


@pytest.mark.parametrize("unit", [1.0, 1e6])
@pytest.mark.parametrize("of_bends", [False, True])
def test_an_equation_of_products_alone_vanishes_for_its_solution_and_is_of_order_one_for_others(of_bends, unit):
    class Scaled(Product):
        def source(self, points):
            return unit**2 * super().source(points)

    given, scaling = physics(Scaled(of_bends)), Scaling(4.0 * unit, 2.5 * unit, -1.0)
    missed, points = residual(given, scaling), torch.tensor(given.points)
    half, one = torch.tensor(HALF), torch.ones(6, dtype=torch.float64)
    if of_bends:  # f = x^2 + y^2
        value, slope, bend = points.square().sum(1), 2 * points, [2 * one, 0 * one, 2 * one]
    else:  # f = x
        value, slope, bend = points[:, 0], torch.stack([one, 0 * one], 1), [0 * one] * 3
    factor = scaling.sign / 2.5
    bends = torch.stack(bend, 1) * torch.stack([half[0] ** 2, half[0] * half[1], half[1] ** 2])
    solution = Streams(
        (factor * (value - 4.0))[None, None], (factor * slope * half)[None, None], (factor * bends)[None, None]
    )
    assert missed.rows(solution).abs().max() < 1e-12
    others = Streams(*(torch.ones_like(part) for part in (solution.value, solution.gradient, solution.second)))
    assert 0.01 < missed.rows(others).abs().max() < 100


def test_streams_of_zeros_leave_the_source():
    given = physics(LinearEquation(0.0, (0.0, 0.0), ((2.0, 0.0), (0.0, 0.0)), right=3.0))
    missed = residual(given, SCALING)
    nothing = Streams(*(torch.zeros(1, 6, *rest, dtype=torch.float64) for rest in [(), (2,), (1,)]))
    # Encoded coefficient 2 / 0.25; -(-(3) / 2.5) after the change of sign of a maximised result.
    torch.testing.assert_close(
        missed.rows(of_one_field(nothing))[:, 0], torch.full((1, 6), 3.0 / 2.5 / 8.0, dtype=torch.float64)
    )
