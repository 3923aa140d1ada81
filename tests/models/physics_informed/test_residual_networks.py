"""The loss of networks on results and residuals: its slope in blocks, its end, and checkpoints of earlier versions."""

import numpy as np
import pytest
import torch

from fieldcraft.models.equations.residuals import residual
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Observations, Physics, Scaling
from fieldcraft.models.physics_informed.residual_networks import Factors, ResidualLoss, exact_draw, initial
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.physics_informed import PhysicsInformed
from fieldcraft.physics.operators import LinearEquation, helmholtz

SMALL = PhysicsInformed("trained", networks=2, width=10, depth=2, refinements=100)
VARYING = LinearEquation(1.0, (lambda p: p[:, 1], 0.5), ((lambda p: 1 + p[:, 0] ** 2, 0.2), (0.2, 1.0)))


def saddle(p):
    return 5.0 + p[:, 0] ** 2 - p[:, 1] ** 2 + p[:, 0] * p[:, 1]


def observed(n=8):
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (20, 2))
    physics = Physics(helmholtz(2, 0.5), Z, np.zeros(2), np.ones(2))
    return Observations(X, saddle(X), maximize=True, noise_sd=0.0, physics=physics)


def fit(data, start=None, report=no_report):
    return SMALL.fit(data, np.random.default_rng(1), start, report)


@pytest.mark.parametrize("equation", [helmholtz(2, 2.0), VARYING], ids=["constant", "varying"])
def test_the_slope_over_blocks_of_points_is_that_of_automatic_differentiation(equation):
    physics = Physics(equation, np.random.default_rng(0).uniform(-1, 1, (600, 2)), np.zeros(2), np.ones(2))
    missed, network = residual(physics, Scaling(0.5, 2.0, -1.0)), Network(2, 5, 2)
    generator = torch.Generator().manual_seed(0)
    X, y = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((4, 2), (4,)))
    fixed = exact_draw(network, initial(network, 2, 1, generator), 4, 600, 0.1, 0.2, generator)
    loss = ResidualLoss(network, X, y, missed, fixed, Factors(nu=2.0, weight=0.3, ridge=0.1))
    theta = (fixed.anchor + 0.1).requires_grad_()
    added = loss.rows(fixed.anchor) - plain(network, fixed.anchor, X, y, missed, fixed)
    rows = plain(network, theta, X, y, missed, fixed) + added
    (slope,) = torch.autograd.grad(rows.square().sum(), theta)
    squares, half = loss.slope(theta.detach())
    torch.testing.assert_close(squares, rows.square().sum(-1).detach(), rtol=1e-10, atol=0)
    torch.testing.assert_close(half, slope / 2, rtol=1e-9, atol=1e-9)


def plain(network, theta, X, y, missed, fixed):
    """Rows but for the tangent term, which the weights do not change."""
    streams = network.streams(theta, missed.points, missed.forms)
    parts = (streams.value, streams.gradient, streams.second)
    image = missed.rows(type(streams)(*(2.0 * part[:, None] for part in parts)))[:, 0]
    data = 2.0 * network.value(theta, X) - y - fixed.data_noise
    return torch.cat([data, 0.3**0.5 * (image + fixed.residual_noise)], dim=1)


def test_a_fit_ends_where_its_loss_has_stalled_and_is_resumed_from_there_and_before():
    data, kept = observed(), []
    whole = fit(data, report=lambda step, metrics, checkpoint: kept.append((step, checkpoint())))
    assert 10 < kept[-1][0] < 100
    for _, checkpoint in kept[::3]:
        resumed = fit(data, start=checkpoint)
        for name, tensor in whole.state().items():
            assert torch.equal(tensor, resumed.state()[name]), name


def test_a_checkpoint_and_a_model_of_an_earlier_version_are_read():
    data, kept = observed(), []
    whole = fit(data, report=lambda step, metrics, checkpoint: kept.append(checkpoint()))
    earlier = {name: tensor for name, tensor in kept[5].items() if name not in ("mark", "stalled")}
    resumed = fit(data, start=earlier)
    assert resumed.metrics["misfit"] == pytest.approx(whole.metrics["misfit"], abs=1e-3)
    model = {name: tensor for name, tensor in whole.state().items() if name not in ("mark", "stalled")}
    Z = torch.zeros(1, 2, dtype=torch.float64)
    assert torch.equal(SMALL.restore(data, model).mean_var(Z)[0], whole.mean_var(Z)[0])
