"""The network of an emulator on a CUDA device agrees with the CPU, and a checkpoint of it goes on."""

import numpy as np
import pytest
import torch

from fieldcraft.models.emulation.parametric_network import ParametricNetwork, Pool
from fieldcraft.models.surrogate import no_report
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.problems.chips import Chips


def network(problem: Problem, device: str) -> ParametricNetwork:
    """A small network of a problem's equation."""
    assert problem.parametric is not None
    return ParametricNetwork(problem.parametric, problem.space, width=16, depth=2, steps=20, batch=64, device=device)


def pool(problem: Problem) -> Pool:
    """Points over the domain and the designs."""
    assert problem.parametric is not None
    rng, (low, high) = np.random.default_rng(3), problem.parametric.domain.bounds
    return Pool(rng.uniform(low, high, (512, len(low))), rng.uniform(-1, 1, (512, problem.space.dimension)))


@pytest.mark.parametrize("problem", [Chips(), CantileverProfile()], ids=["chips", "cantilever"])
def test_twenty_steps_on_the_card_are_those_of_the_cpu(problem: Problem) -> None:
    X = np.random.default_rng(4).uniform(-1, 1, (5, problem.space.dimension))
    found = []
    for device in ("cpu", "cuda"):
        trained = network(problem, device)
        state = trained.train(trained.begin(), pool(problem), no_report)
        assert all(value.device == torch.device("cpu") for value in state.values())
        found.append(network(problem, "cpu").fields(state, X, (12,) * len(problem.parametric.cells)))
    for name, values in found[0].items():
        assert found[1][name] == pytest.approx(values, rel=1e-6, abs=1e-6 * np.ptp(values))
