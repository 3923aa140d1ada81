"""The rule `probing`: which designs of a campaign probe, and what their score is."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fieldcraft.models.acquisitions.log_ehvi import LogEHVI
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.constraints import Constraints
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Aim, Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.rules.probability import Probability
from fieldcraft.models.rules.probing import Probing
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Continuous, SearchSpace

NONE = torch.empty((0, 2), dtype=torch.float64)
GRID = torch.tensor(np.random.default_rng(5).uniform(-1, 1, (40, 2)))


def observed(n):
    """f = x + y, a second number that falls with x, and a constraint that is met outside a disc."""
    X = np.random.default_rng(3).uniform(-1, 1, (n, 2))
    return Observations(
        X,
        X.sum(axis=1),
        maximize=False,
        aims=(Aim(False, 2.0), Aim(False, 2.0)),
        further=(1 - X[:, :1]) ** 2,
        constraints=0.5 - (X**2).sum(axis=1, keepdims=True),
    )


def fitted(data, acquisition):
    algorithm = Algorithm(Sobol(), 1, ExactGP(restarts=0), acquisition, Multistart())
    return algorithm.fit(data, np.random.default_rng(0))


@pytest.fixture(scope="module")
def several():
    data = observed(12)
    return data, fitted(data, LogEHVI())


@pytest.fixture(scope="module")
def one():
    data = observed(12)
    data = replace(data, aims=(), further=data.further[:0, :0])
    return data, fitted(data, LogEI())


def score(rule, acquisition, of, pending=NONE, proposed=12):
    data, posterior = of
    return Constraints(rule=rule).score(acquisition, posterior, data, pending, 1, np.random.default_rng(0), proposed)


@pytest.mark.parametrize("acquisition", [LogEI(), LogEHVI()])
def test_every_third_design_of_a_campaign_probes_in_whatever_batches_they_come(acquisition, one, several):
    of = one if isinstance(acquisition, LogEI) else several
    points = GRID[:2]
    for n_pending in range(3):
        pending = GRID[10 : 10 + n_pending]
        probing, plain = (score(rule, acquisition, of, pending, 12 + n_pending) for rule in (Probing(), Probability()))
        for n_chosen in range(3):
            chosen = GRID[20 : 20 + n_chosen]
            lacking = probing.value(points, n_chosen, chosen) - plain.value(points, n_chosen, chosen)
            feasible = of[1].fantasize(torch.cat([pending, chosen])) if n_pending + n_chosen else of[1]
            share = -0.7 if (12 + n_pending + n_chosen) % 3 == 0 else 0.0
            torch.testing.assert_close(lacking, share * feasible.log_feasible(points), rtol=1e-9, atol=1e-9)


def test_the_turn_is_that_of_the_designs_proposed_whatever_became_of_them(several):
    data, posterior = several
    failed = replace(data, failed=GRID[30:31].numpy())
    for of in ((data, posterior), (failed, posterior)):
        for pending in (NONE, GRID[10:11]):
            beliefs = posterior.fantasize(pending) if len(pending) else posterior
            for proposed, share in ((12, -0.7), (13, 0.0), (14, 0.0), (15, -0.7)):
                probing, plain = (
                    score(rule, LogEHVI(), of, pending, proposed).value(GRID[:2], 0, NONE)
                    for rule in (Probing(), Probability())
                )
                expected = share * beliefs.log_feasible(GRID[:2])
                torch.testing.assert_close(probing - plain, expected, rtol=1e-9, atol=1e-9)


def test_a_design_that_probes_says_so_and_the_others_say_nothing(several):
    data, posterior = several
    algorithm = Algorithm(Sobol(), 1, ExactGP(restarts=0), LogEHVI(), Multistart(n_samples=32, n_starts=1))
    asked = (posterior, data, NONE.numpy(), SearchSpace((Continuous("x", -1.0, 1.0), Continuous("y", -1.0, 1.0))))
    for proposed in (12, 13, 14):
        notes = algorithm.propose(*asked, 3, np.random.default_rng(0), proposed=proposed).notes
        probes = [place for place in range(3) if (proposed + place) % 3 == 0]
        assert [place for place, note in enumerate(notes) if note] == probes
        assert "one of 3 weighs the probability of feasibility to the power 0.3" in notes[probes[0]]["probing"]


@pytest.mark.parametrize("acquisition", [LogEI(), LogEHVI()])
def test_the_gradient_of_a_probing_score_is_a_finite_difference(acquisition, one, several):
    found, step = score(Probing(), acquisition, one if isinstance(acquisition, LogEI) else several), 1e-6
    X = GRID[:4]
    _, slopes = found.value_and_grad(X, 0, NONE)
    for j in range(2):
        ahead, behind = X.clone(), X.clone()
        ahead[:, j] += step
        behind[:, j] -= step
        with torch.no_grad():
            expected = (found.value(ahead, 0, NONE) - found.value(behind, 0, NONE)) / (2 * step)
        torch.testing.assert_close(slopes[:, j], expected, rtol=1e-4, atol=1e-4)


def test_samples_are_screened_by_the_same_power(several):
    found = score(Probing(), LogEHVI(), several)
    torch.testing.assert_close(found.screened(GRID, 0, NONE), found.value(GRID, 0, NONE))


def test_several_objectives_probe_unless_the_campaign_states_another_rule_and_one_objective_does_not(one, several):
    for acquisition, of, rule in ((LogEHVI(), several, Probing()), (LogEI(), one, Probability())):
        left_out, stated = (score(each, acquisition, of).value(GRID, 0, NONE) for each in (None, rule))
        assert torch.equal(left_out, stated)
    assert not torch.equal(
        score(None, LogEHVI(), several).value(GRID, 0, NONE),
        score(Probability(), LogEHVI(), several).value(GRID, 0, NONE),
    )


def test_where_nothing_is_believed_feasible_no_design_probes(several):
    data, _ = several
    none = replace(data, constraints=np.abs(data.constraints) + 1)
    of = (none, fitted(none, LogEHVI()))
    found = score(Probing(), LogEHVI(), of)
    torch.testing.assert_close(found.value(GRID, 0, NONE), of[1].log_feasible(GRID))
    assert not found.remarks(0)


def test_a_rule_by_which_every_design_would_probe_is_refused():
    with pytest.raises(
        ValueError, match=r"every is 1: of at least 2 designs one probes; or use the rule `probability`"
    ):
        Probing(1)
