"""Steps of a training on a CUDA device: nothing is read by the host within one, and a replayed step is the step."""

import numpy as np
import pytest
import torch

from fieldcraft.models.networks.ensembles import MisfitLoss
from fieldcraft.models.networks.least_squares import PARTS, Schedule, State
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.networks.steps import Steps
from fieldcraft.models.numerics.devices import computing_on
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.engines import Trained
from fieldcraft.physics.operators import laplace

RNG = np.random.default_rng(8)
DATA = Observations(
    X=RNG.uniform(-1, 1, (12, 2)),
    y=RNG.standard_normal(12),
    maximize=False,
    noise_sd=0.1,
    physics=Physics(laplace(2), RNG.uniform(-1, 1, (24, 2)), np.zeros(2), np.ones(2)),
)
PLAN = Schedule(steps=30, rate=0.01, decay=0.5, refinements=20, share=0.1, curved=True)


def residuals(k=3):
    """Residual networks on the card."""
    engine = Trained(networks=k, width=16, depth=2)
    network = engine._network(DATA)
    with computing_on("cuda"):
        return engine._problem(network, DATA, DATA.physics, engine._fixed(network, DATA, DATA.physics, RNG))


def misfits(k=3):
    """Networks without an equation on the card."""
    network = Network(2, 16, 2, "sine", 2.0)
    anchor = network.initial(k, torch.Generator().manual_seed(0))
    X, y, anchor = (part.to("cuda") for part in (torch.tensor(DATA.X), torch.tensor(DATA.targets), anchor))
    return MisfitLoss(network, X, y, anchor, 0.01)


@pytest.mark.parametrize("problem", [residuals, misfits])
def test_a_step_reads_nothing_from_the_card(problem):
    losses = problem()
    steps, state = Steps(losses, PLAN), State.begin(losses.anchor)
    size = torch.tensor([0.01, 1.0], dtype=torch.float64).to("cuda")
    state = steps.refined(steps.adam(state, size))  # libraries begin what they begin once
    torch.cuda.set_sync_debug_mode("error")
    try:
        steps.refined(steps.adam(state, size))
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("problem", [residuals, misfits])
def test_replayed_steps_of_adam_are_the_steps(problem):
    losses = problem()
    assert losses.capturable
    replayed = Steps(losses, PLAN).taken(State.begin(losses.anchor))
    losses.capturable = False
    plain = Steps(losses, PLAN).taken(State.begin(losses.anchor))
    assert replayed.step == plain.step == PLAN.steps
    for name in PARTS:
        assert torch.equal(getattr(replayed, name), getattr(plain, name)), name


def test_gauss_newton_steps_between_two_looks_of_the_host_end_where_single_ones_do():
    losses = residuals()
    plan = Schedule(steps=0, rate=0.01, decay=0.5, refinements=20, share=0.1, curved=True)
    steps, begun = Steps(losses, plan), State.begin(losses.anchor)
    ten = steps.taken(begun)
    assert ten.step == 10
    for _ in range(10):
        begun = steps.refined(begun)
    for name in PARTS:
        assert torch.equal(getattr(ten, name), getattr(begun, name)), name
