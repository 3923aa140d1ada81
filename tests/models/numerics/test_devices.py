"""Where tensors are computed. torch's meta device stands in for a card: no numbers, but no mixing of devices either."""

import io
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
import warm_start
from threadpoolctl import threadpool_info, threadpool_limits

from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.equations.residuals import residual
from fieldcraft.models.maximizers.certified import Certified
from fieldcraft.models.networks.ensembles import MisfitLoss
from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.networks.steps import Steps
from fieldcraft.models.numerics.devices import FEW, computing_on, device
from fieldcraft.models.observations import Observations, Physics
from fieldcraft.models.physics_informed.residual_networks import Factors, Fixed, ResidualLoss, initial
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
    """On the CPU, then moved: it looks at its numbers once, when it is made, and the meta device has none."""
    fixed = Fixed.plain(initial(NETWORK, 3, 1, torch.Generator().manual_seed(0)), len(X), len(PHYSICS.points))
    readings = torch.tensor(X), torch.tensor(DATA.targets)
    made = ResidualLoss(NETWORK, *readings, residual(PHYSICS, DATA.scaling), fixed, Factors(1.0, 1.0, 0.1))
    torch.save(made, kept := io.BytesIO())
    kept.seek(0)
    return torch.load(kept, map_location=place, weights_only=False)


@pytest.mark.parametrize("loss", [reading_loss, residual_loss])
def test_a_step_of_training_stays_on_the_device_of_its_problem(loss):
    away, here = loss(META), loss(torch.device("cpu"))
    schedule = Schedule(steps=2, rate=0.01, decay=1.0, refinements=1)
    for first in (State.begin, lambda anchor: replace(State.begin(anchor), step=2)):  # by Adam, and by Gauss-Newton
        moved = Steps(away, schedule).taken(first(away.anchor))
        known = Steps(here, schedule).taken(first(here.anchor))
        for name in ("theta", "first", "second", "damping", "loss"):
            assert getattr(moved, name).device == META, name
            assert getattr(moved, name).shape == getattr(known, name).shape


def test_a_problem_that_is_left_behind_is_found_by_the_meta_device():
    left = MisfitLoss(NETWORK, torch.tensor(X), torch.tensor(DATA.targets), reading_loss(META).anchor, 0.1)
    with pytest.raises(RuntimeError, match="to device meta"):
        Steps(left, Schedule(steps=2, rate=0.01, decay=1.0, refinements=1)).taken(State.begin(left.anchor))


def test_what_a_fit_used_is_noted_and_only_what_asks_for_a_device_uses_one():
    with computing_on("auto") as computing:
        ExactGP(restarts=0).fit(DATA, np.random.default_rng(0), None, no_report)
        assert computing.used == set()
        NeuralGreedy(width=4, refinements=1).fit(DATA, np.random.default_rng(0), None, no_report)
    assert computing.used == {computing.kind}


def test_few_trials_take_one_thread_of_every_library_and_the_others_those_there_are():
    def threads():
        return torch.get_num_threads(), {pool["num_threads"] for pool in threadpool_info()}

    before = torch.get_num_threads()
    try:
        with threadpool_limits(2):
            torch.set_num_threads(2)
            with computing_on("cpu", FEW) as computing:
                assert threads() == (1, {1}) and computing.threads == 1
            assert threads() == (2, {2}), "afterwards they are as they were"
            for many in (FEW + 1, None):
                with computing_on("cpu", many) as computing:
                    assert threads() == (2, {2}) and computing.threads == 2
    finally:
        torch.set_num_threads(before)


LATE = """
import ctypes, shutil, sys, types
from pathlib import Path
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from fieldcraft.models.numerics.devices import computing_on
with computing_on("cpu", 1):
    before = len(threadpool_info())
(library,) = (each["filepath"] for each in threadpool_info() if "numpy" in each["filepath"])
ctypes.CDLL(shutil.copy(library, sys.argv[1]))
sys.modules["what loads it"] = types.ModuleType("what loads it")
with threadpool_limits(2), computing_on("cpu", 1):
    assert len(threadpool_info()) == before + 1, threadpool_info()
    print({each["num_threads"] for each in threadpool_info()})
"""


def test_a_library_that_is_loaded_after_a_computation_takes_one_thread_in_the_next(tmp_path):
    done = warm_start.run(["-c", LATE, str(tmp_path)], {**os.environ}, 120)
    assert (done.returncode, done.stdout) == (0, "{1}\n"), done.stderr


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
