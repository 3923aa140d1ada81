"""A fourth-order equation in mixed form: w'' = M / EI, M'' = q, with the moment M as an auxiliary field."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fieldcraft.models.equations.functionals import joint_rows
from fieldcraft.models.equations.residuals import (
    GeneralResidual,
    LinearResidual,
    linear_rows,
    linearised_rows,
    residual,
)
from fieldcraft.models.networks.perceptron import Network, Streams, hessian_forms
from fieldcraft.models.observations import Observations, Physics, Scaling
from fieldcraft.models.physics_informed.joint_posterior import condition
from fieldcraft.models.physics_informed.joint_process import Hyper, JointProcess
from fieldcraft.models.physics_informed.operator_kernels import Stationary
from fieldcraft.models.physics_informed.residual_networks import Factors, Fixed, ResidualLoss, initial
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, LinearSystem, System

CENTER, HALF = np.array([1.0]), np.array([1.0])
SCALING = Scaling(mean=4.0, sd=2.5, sign=-1.0)


def moment(x):
    return 2.0 + np.sin(2 * x)


def deflection(x):
    """w'' = (1 + x) M: 2 + 2x + (1 + x) sin 2x, integrated twice, with w(0) = 5."""
    return 5.0 + x**2 + x**3 / 3 - (1 + x) * np.sin(2 * x) / 4 - np.cos(2 * x) / 4


BEND = LinearEquation(0.0, (0.0,), ((1.0,),))
COMPLIANCE = LinearEquation(lambda p: -(1 + p[:, 0]), (0.0,), ((0.0,),))
LOAD = LinearEquation(0.0, (0.0,), ((1.0,),), right=lambda p: -4 * np.sin(2 * p[:, 0]))
BEAM = LinearSystem(blocks=((BEND, COMPLIANCE), (None, LOAD)), sizes=(2.0,))


@dataclass(frozen=True)
class Undeclared:
    """A linear system that does not say so: it takes the way of the nonlinear ones."""

    system: LinearSystem
    linear: bool = False

    @property
    def sizes(self):
        return self.system.sizes

    def operators(self, points, jets):
        return self.system.operators(points, jets)

    def sources(self, points):
        return tuple(torch.as_tensor(np.asarray(part)) for part in self.system.sources(np.asarray(points)))


def physics(system=BEAM, r=24):
    return Physics(system, np.linspace(0.0, 2.0, r)[:, None], CENTER, HALF)


def observed(n=5, **given):
    x = np.linspace(0.1, 1.9, n)
    return Observations(
        x[:, None] - 1, deflection(x), **{"maximize": True, "noise_sd": 0.0, "physics": physics(), **given}
    )


def error(posterior):
    x = np.linspace(0.0, 2.0, 101)
    mean = posterior.mean_var(torch.from_numpy(x[:, None] - 1))[0].detach().numpy()
    return float(np.sqrt(np.mean((posterior.scaling.to_physical(mean) - deflection(x)) ** 2)) / deflection(x).std())


def test_a_system_knows_its_solution():
    assert isinstance(BEAM, System)
    assert not isinstance(BEND, System)
    rows = linear_rows(physics(), SCALING, physics().points)
    # f'' and M'' of the exact fields by differences, in target units and encoded coordinates (half is 1).
    x, h = physics().points[:, 0], 1e-4
    fields = [lambda x: SCALING.to_target(deflection(x)), lambda x: -moment(x) / 2.0]
    values = [f(x) for f in fields]
    bends = [(f(x + h) - 2 * f(x) + f(x - h)) / h**2 for f in fields]
    for row in rows:
        parts = zip(row.blocks, values, bends, strict=True)
        image = sum(block.zeroth * value + block.second[:, 0, 0] * bend for block, value, bend in parts)
        np.testing.assert_allclose(image, row.source, rtol=0, atol=1e-5)
        assert max(np.abs(block.zeroth).max() + np.abs(block.second).max() for block in row.blocks) == pytest.approx(
            1.0
        )


@pytest.mark.parametrize("wrap", [lambda system: system, Undeclared])
def test_residuals_of_a_system_are_those_of_its_fields_in_physical_units(wrap):
    given, network = physics(wrap(BEAM)), Network(1, 6, 2)
    theta = initial(network, 3, 2, torch.Generator().manual_seed(1))
    missed = residual(given, SCALING)
    assert isinstance(missed, LinearResidual if given.equation.linear else GeneralResidual)
    X, y = torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    loss = ResidualLoss(network, X, y, missed, Fixed.plain(theta, 1, 48), Factors(nu=1.0, weight=1.0, ridge=0.0))
    rows = loss.rows(theta)[:, 1:].reshape(3, 2, 24)
    points = torch.from_numpy(given.points)
    scales = torch.tensor([row.scale for row in linear_rows(physics(), SCALING, given.points)], dtype=torch.float64)
    sign = -1.0 if given.equation.linear else 1.0
    for k in range(3):
        fields = theta[k].reshape(2, -1)

        def y(x, w=fields[:1]):
            return SCALING.mean - SCALING.sd * network.value(w, x[None] - 1)[0, 0]

        def m(x, w=fields[1:]):
            return -2.0 * network.value(w, x[None] - 1)[0, 0]

        for i in (0, 7, 23):
            x = points[i]
            bend, turn = torch.func.hessian(y)(x)[0, 0], torch.func.hessian(m)(x)[0, 0]
            expected = torch.stack([bend - (1 + x[0]) * m(x), turn + 4 * torch.sin(2 * x[0])])
            torch.testing.assert_close(sign * rows[k, :, i], expected / (2.5 * scales), rtol=0, atol=1e-10)


def test_the_jacobian_of_a_system_is_that_of_automatic_differentiation():
    network = Network(1, 4, 2)
    theta = initial(network, 2, 2, torch.Generator().manual_seed(1))
    X, y = torch.tensor([[0.3], [-0.2]], dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    missed = residual(physics(r=3), SCALING)
    loss = ResidualLoss(network, X, y, missed, Fixed.plain(theta, 2, 6), Factors(nu=1.3, weight=0.4, ridge=0.0))
    rows, jacobian = loss.linearised(theta)
    torch.testing.assert_close(rows, loss.rows(theta))
    unit = torch.eye(8, dtype=torch.float64).expand(2, -1, -1)
    written = torch.stack([jacobian.combined(unit[:, i]) for i in range(8)], dim=1)

    def plain(weights):
        fields = weights.reshape(2, -1)
        found = network.streams(fields, missed.points, missed.forms)
        streams = Streams(*(1.3 * part[None] for part in (found.value, found.gradient, found.second)))
        return torch.cat([1.3 * network.value(fields[:1], X)[0] - y, 0.4**0.5 * missed.rows(streams)[0].flatten()])

    for k in range(2):
        torch.testing.assert_close(rows[k], plain(theta[k]))
        expected = torch.autograd.functional.jacobian(plain, theta[k])
        torch.testing.assert_close(written[k], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "surrogate",
    [
        PhysicsInformed("kernel"),
        PhysicsInformed("ntk", width=32),
        PhysicsInformed("trained", width=16, depth=2, frequency=1.5, refinements=40),
    ],
    ids=["kernel", "ntk", "trained"],
)
def test_a_fourth_order_equation_is_solved_from_five_readings_of_the_objective(surrogate):
    posterior = surrogate.fit(observed(), np.random.default_rng(0), None, no_report)
    assert error(posterior) < 0.02


def test_the_auxiliary_field_carries_the_load_to_the_objective():
    data = observed()
    process = JointProcess(
        (Stationary("rbf"),) * 2, Hyper.of(torch.tensor([0.3, 0.3, 1.0, 1.0, -12.0, -14.0]).double(), 2)
    )
    alone = LinearSystem(blocks=((BEND, COMPLIANCE),), sizes=(2.0,))
    errors = []
    for system in (BEAM, alone):
        rows = joint_rows(data, physics(system), linear_rows(physics(system), data.scaling, physics().points))
        errors.append(error(condition(process, rows, data.scaling, {}, {}, {})))
    assert errors[0] < 0.2 * errors[1]


def test_linearising_a_linear_system_gives_the_system():
    network = Network(1, 6, 2)
    Z = torch.from_numpy(physics().encode(physics().points))
    streams = network.streams(initial(network, 2, 1, torch.Generator().manual_seed(4)), Z, hessian_forms(1, Z))
    at = type(streams)(*(part[None] for part in (streams.value, streams.gradient, streams.second)))
    found = linearised_rows(physics(Undeclared(BEAM)), SCALING, at)
    for row, expected in zip(found, linear_rows(physics(), SCALING, physics().points), strict=True):
        # The general residual does not change sign with the target.
        np.testing.assert_allclose(-row.source, expected.source, rtol=0, atol=1e-9)
        for block, own in zip(row.blocks, expected.blocks, strict=True):
            for name in ("zeroth", "first", "second"):
                np.testing.assert_allclose(-getattr(block, name), getattr(own, name), rtol=0, atol=1e-9)


def test_a_system_is_refused_by_the_basis_engine():
    with pytest.raises(ValueError, match="states 2 equations for 2 fields, and engine basis adds up solutions of one"):
        PhysicsInformed("basis", degree=6).fit(observed(), np.random.default_rng(0), None, no_report)


def test_a_trained_system_is_resumed_and_restored_bit_for_bit():
    data = observed()
    surrogate = PhysicsInformed("trained", networks=2, width=6, depth=1, refinements=4)
    kept = []
    whole = surrogate.fit(
        data, np.random.default_rng(0), None, lambda step, metrics, checkpoint: kept.append(checkpoint())
    )
    resumed = surrogate.fit(data, np.random.default_rng(9), kept[1], no_report)
    restored = surrogate.restore(data, whole.state())
    X = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    for other in (resumed, restored):
        assert torch.equal(whole.mean_var(X)[0], other.mean_var(X)[0])
