"""Asynchronous campaigns: of sixteen pending designs no two are the same, whatever the acquisition and the space."""

from dataclasses import replace

import numpy as np
import pytest
from kinds import kinds, public_class

from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.capability import Capability, required
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Aim, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.grouped_gp import GroupedGP
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace

PENDING = 16
SPACES = {
    "integers": SearchSpace((Integer("n", 1, 20),)),
    "mixed": SearchSpace((Continuous("t", 0.0, 1.0), Integer("n", 0, 3), Categorical("c", ("a", "b")))),
    "known": SearchSpace((Continuous("t", 0.0, 1.0),)),
}
CHEAP = ("log_ei", "thompson", "ucb")
CASES = [("integers", kind) for kind in kinds("fieldcraft.models.acquisitions")]
CASES += [(name, kind) for name in ("mixed", "known") for kind in CHEAP]


def observations(space):
    """Four trials, read exactly; twelve where nothing is left to be learnt."""
    X = space.sample(12 if space is SPACES["known"] else 4, np.random.default_rng(1))
    return Observations(X=X, y=X.sum(axis=1), maximize=False, noise_sd=0.0)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_two_of_sixteen_pending_designs_are_the_same(name, kind):
    space = SPACES[name]
    data = observations(space)
    acquisition = public_class("fieldcraft.models.acquisitions", kind)()
    grouped = Capability.GROUPED in required(acquisition)
    if Capability.SEVERAL in required(acquisition):
        data = replace(data, aims=(Aim(maximize=False), Aim(maximize=True)), further=data.y[:, None] ** 2)
    surrogate = (GroupedGP if grouped else ExactGP)(noise="known", restarts=0)
    algorithm = Algorithm(
        initial=Sobol(),
        n_initial=1,
        surrogate=surrogate,
        acquisition=acquisition,
        maximizer=Multistart(n_samples=20, n_starts=2, max_iterations=5),
    )
    posterior = algorithm.fit(data, np.random.default_rng(0))
    pending = np.empty((0, space.dimension))
    for _ in range(PENDING // 4):
        rng = np.random.default_rng(7)  # an acquisition that draws draws the same again
        pending = np.vstack([pending, algorithm.propose(posterior, data, pending, space, 4, rng).X])
    designs = [tuple(design.items()) for design in space.decode(pending)]
    assert len(set(designs)) == PENDING
