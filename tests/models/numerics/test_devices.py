"""Where tensors are computed. torch's meta device stands in for a card: no numbers, but no mixing of devices either."""

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.networks.ensembles import MisfitLoss
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.networks.training import Schedule, State, _adam, _gauss_newton
from fieldcraft.models.numerics.devices import computing_on, device
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.engines import _moved
from fieldcraft.models.physics_informed.residual_networks import Factors, Fixed, ResidualLoss, initial
from fieldcraft.models.physics_informed.residuals import residual
from fieldcraft.models.surrogate import no_report
from fieldcraft.models.surrogates.deep_ensemble import DeepEnsemble
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.neural_greedy import NeuralGreedy
from fieldcraft.physics.operators import laplace
from fieldcraft.physics.space import Continuous, SearchSpace

RNG = np.random.default_rng(6)
X = RNG.uniform(-1, 1, (6, 2))
PHYSICS = Physics(laplace(2), RNG.uniform(-1, 1, (5, 2)), np.zeros(2), np.ones(2))
DATA = Observations(X=X, y=X[:, 0] * X[:, 1], maximize=False, noise_sd=0.1, physics=PHYSICS)
META = torch.device("meta")
NETWORK = Network(2, 5, 2, "sine", 1.0)


def reading_loss(place):
    anchor = NETWORK.initial(3, torch.Generator().manual_seed(0))
    X, targets, theta = (part.to(place) for part in (torch.tensor(DATA.X), torch.tensor(DATA.targets), anchor))
    return MisfitLoss(NETWORK, X, targets, theta, 0.1)


def residual_loss(place):
    fixed = Fixed.plain(initial(NETWORK, 3, 1, torch.Generator().manual_seed(0)), len(X), len(PHYSICS.points))
    moved = _moved(fixed, place)
    readings = torch.tensor(X).to(place), torch.tensor(DATA.targets).to(place)
    equation = _moved(residual(PHYSICS, DATA.scaling), place)
    return ResidualLoss(NETWORK, *readings, equation, moved, Factors(1.0, 1.0, 0.1))


@pytest.mark.parametrize("loss", [reading_loss, residual_loss])
def test_a_step_of_training_stays_on_the_device_of_its_problem(loss):
    away, here = loss(META), loss(torch.device("cpu"))
    schedule = Schedule(steps=2, rate=0.01, decay=1.0, refinements=1)
    for step in (lambda problem, state: _adam(problem, state, schedule), _gauss_newton):
        moved = step(away, State.begin(away.anchor))
        known = step(here, State.begin(here.anchor))
        for name in ("theta", "first", "second", "damping", "loss"):
            assert getattr(moved, name).device == META, name
            assert getattr(moved, name).shape == getattr(known, name).shape


def test_a_problem_that_is_left_behind_is_found_by_the_meta_device():
    left = MisfitLoss(NETWORK, torch.tensor(X), torch.tensor(DATA.targets), reading_loss(META).anchor, 0.1)
    with pytest.raises(RuntimeError, match="not on the expected device meta"):
        _adam(left, State.begin(left.anchor), Schedule(steps=2, rate=0.01, decay=1.0, refinements=1))


def test_what_a_fit_used_is_noted_and_only_what_asks_for_a_device_uses_one():
    with computing_on("auto") as computing:
        ExactGP(restarts=0).fit(DATA, np.random.default_rng(0), None, no_report)
        assert computing.used == set()
        NeuralGreedy(width=4, refinements=1).fit(DATA, np.random.default_rng(0), None, no_report)
    assert computing.used == {computing.kind}


def test_every_checkpoint_of_a_training_stands_on_the_cpu():
    states = []
    posterior = DeepEnsemble(networks=2, width=4, refinements=2).fit(
        DATA, np.random.default_rng(0), None, lambda step, metrics, checkpoint: states.append(checkpoint())
    )
    assert len(states) == 2
    assert {part.device.type for state in [*states, posterior.state()] for part in state.values()} == {"cpu"}


def test_a_card_that_is_not_there_is_refused_and_the_cpu_is_what_is_left(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match="device is 'cuda' and torch finds none: use 'cpu'"), computing_on("cuda"):
        raise AssertionError("the block is never entered")
    for choice in ("auto", "cpu"):
        with computing_on(choice) as computing:
            assert device() == torch.device("cpu")
        assert computing.device == "cpu"


def test_a_maximizer_on_the_card_is_refused_where_the_operator_allows_the_cpu_alone():
    posterior = ExactGP(restarts=0).fit(DATA, np.random.default_rng(0), None, no_report)
    score = UCB().score(posterior, DATA, torch.empty(0, 2, dtype=torch.float64), 1, np.random.default_rng(0))
    space = SearchSpace((Continuous("a", -1.0, 1.0), Continuous("b", -1.0, 1.0)))
    maximizer = Certified()
    object.__setattr__(maximizer, "device", "cuda")  # as built on a machine with a card
    with computing_on("cpu"), pytest.raises(ValueError, match="FIELDCRAFT_DEVICE allows the CPU alone"):
        maximizer.maximize(score, space, 1, np.random.default_rng(0))
