"""Which trials are feasible: by their results where these are exact, else by what is believed."""

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.bound import Bound
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.scoring.analytic import AnalyticScore
from fieldcraft.models.scoring.incumbent import best_design
from fieldcraft.models.surrogates.exact_gp import ExactGP

NONE = torch.empty((0, 2), dtype=torch.float64)


def rng():
    return np.random.default_rng(0)


def algorithm(acquisition, rule=None):
    words = ExactGP(restarts=0), acquisition, Multistart(n_samples=256, n_starts=8)
    return Algorithm(Sobol(), 1, *words, constraints=Constraints(rule=rule))


def clamped(**words):
    """Six designs on a line whose objective falls with x; the violation max(0, g) is zero at the first three."""
    X = np.stack([np.linspace(-0.9, 0.9, 6), np.zeros(6)], axis=1)
    violation = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 3.0])[:, None]
    return Observations(X, -X[:, 0], maximize=False, constraints=violation, **words)


@pytest.mark.parametrize("known", [{"exact": True}, {"exact_constraints": True, "noise_sd": 0.1}])
@pytest.mark.parametrize("rule", [Probability(), Bound()])
def test_where_results_are_exact_a_violation_of_zero_is_feasible_whatever_the_mean_is(rule, known):
    data, wanted = clamped(**known), algorithm(LogEI(), rule)
    found = wanted.fit(data, rng())
    assert found.trials_feasible(data).tolist() == [True] * 3 + [False] * 3
    assert found.read_feasible(torch.tensor(data.X)).tolist() != [True] * 3 + [False] * 3
    assert best_design(found, data).tolist() == data.X[2].tolist()
    score = wanted.constraints.score(LogEI(), found, data, NONE, 1, rng())
    assert isinstance(getattr(score, "score", None), AnalyticScore)


def test_where_results_are_noisy_feasibility_is_believed():
    data = clamped()
    found = algorithm(LogEI()).fit(data, rng())
    assert torch.equal(found.trials_feasible(data), found.read_feasible(torch.tensor(data.X)))


def test_a_trial_that_states_the_noise_of_its_constraint_is_believed():
    sds = np.full((6, 2), np.nan)
    sds[2, 1], sds[3, 0] = 0.5, 0.5  # the third of the constraint, the fourth of the objective
    data = clamped(exact_constraints=True, sds=sds)
    found = algorithm(LogEI()).fit(data, rng())
    believed = found.read_feasible(torch.tensor(data.X)).tolist()
    assert found.trials_feasible(data).tolist() == [True, True, believed[2], False, False, False]
    assert not believed[2]


def test_each_constraint_is_learnt_with_the_noise_of_its_own_and_the_objective_without():
    data = clamped(noise_sd=0.2, constraint_sds=(0.3,))
    assert data.constraint(0).noise_sd == 0.3
    assert data.objective.noise_sd == 0.2 and data.objective.constraint_sds == ()
    assert clamped(noise_sd=0.2).constraint(0).noise_sd == 0.0


@pytest.mark.parametrize("sds", [(0.1, 0.2), (-0.1,), (np.inf,), (np.nan,)])
def test_noise_that_is_not_of_each_constraint_or_no_number_is_refused(sds):
    with pytest.raises(ValueError, match=r"constraint_sds is .*for each constraint, or none"):
        clamped(constraint_sds=sds)
