"""config_opt and ucb_c: argmin LCB_f where every LCB_c <= 0, against a dense grid."""

import math

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.ucb import UCB
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Continuous, SearchSpace

LINE = SearchSpace((Continuous("x", -1.0, 1.0),))
GRID = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None]
X = np.array([-0.9, -0.5, -0.1, 0.3, 0.6, 0.9])[:, None]
VIOLATED, SATISFIED = [0.6, 0.9, 0.2, 0.7, 0.1, 0.8], [0.6, 0.9, -0.2, 0.7, -0.3, 0.8]
GROWN = math.sqrt(0.2 * math.log(12))


def proposed(c, beta, fallback="empty"):
    """The posterior of f = x + 0.3 sin 9x and of c, both read without noise, and the design (1, 1) chosen."""
    data = Observations(X, X[:, 0] + 0.3 * np.sin(9 * X[:, 0]), False, noise_sd=0.0, constraints=np.array(c)[:, None])
    kept = Constraints(rule=Bound(beta=beta, fallback=fallback))
    words = ExactGP(restarts=0, noise="known"), UCB(beta=beta), Multistart(n_samples=256, n_starts=4)
    algorithm = Algorithm(Sobol(), 1, *words, constraints=kept)
    posterior = algorithm.fit(data, np.random.default_rng(0))
    found = algorithm.propose(posterior, data, np.empty((0, 1)), LINE, 1, np.random.default_rng(1))
    return posterior, torch.tensor(found.X)


def bounds(posterior, at, width):
    """LCB_f in targets (n,) and LCB_c in the constraint's own unit (n,), from the posteriors of each."""
    with torch.no_grad():
        (mean, variance), (own,) = posterior.objective.mean_var(at), posterior.constraints
        c, spread = own.mean_var(at)
    lower = own.scaling.mean + own.scaling.sd * (c - width * spread.sqrt())
    return (mean - width * variance.sqrt()).numpy(), lower.numpy()


@pytest.mark.parametrize(("c", "beta", "width"), [(VIOLATED, 4.0, 2.0), (SATISFIED, "growing", GROWN)])
def test_the_design_is_the_optimists_best_whether_or_not_a_trial_is_feasible(c, beta, width):
    posterior, found = proposed(c, beta)
    assert posterior.believed_feasible(torch.tensor(X)).any() == (c is SATISFIED)
    lower, excess = bounds(posterior, GRID, width)
    inside = excess <= 0
    assert not inside[lower.argmin()]  # the constraint matters
    own, kept = bounds(posterior, found, width)
    assert own[0] <= lower[inside].min() + 1e-3
    assert kept[0] <= 1e-5


def test_where_the_region_is_empty_the_violation_is_least():
    posterior, found = proposed(VIOLATED, "growing")
    excess = bounds(posterior, GRID, GROWN)[1]
    assert excess.min() > 0
    assert bounds(posterior, found, GROWN)[1][0] <= excess.min() + 1e-4


def test_the_other_fallback_seeks_feasibility_until_a_trial_is_believed_feasible():
    posterior, found = proposed(VIOLATED, 4.0, fallback="believed")
    inside = bounds(posterior, GRID, 2.0)[1] <= 0
    assert posterior.log_feasible(found).item() >= posterior.log_feasible(GRID)[inside].max().item() - 1e-4
