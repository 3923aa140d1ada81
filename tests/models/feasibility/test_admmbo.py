"""ADMMBO (Ariafar et al., 2019): its replay by hand, its two improvements, and a constrained optimum on a line."""

import numpy as np
import pytest
import torch
from scipy import stats

from fieldcraft.models.acquisitions.admmbo import ADMMBO
from fieldcraft.models.acquisitions.log_ei import LogEI
from fieldcraft.models.algorithm import Algorithm
from fieldcraft.models.feasibility.admm import Alternation, Iterate, TrialData
from fieldcraft.models.maximizers.multistart import Multistart
from fieldcraft.models.observations import Observations
from fieldcraft.models.proposers.sobol import Sobol
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.physics.space import Continuous, SearchSpace

LINE = SearchSpace((Continuous("x", -1.0, 1.0),))
NONE = torch.empty((0, 1), dtype=torch.float64)
ORDER = Alternation(start=2, each=1, rho=0.5, M=20.0)
GRID = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]


def rng(seed=0):
    return np.random.default_rng(seed)


def words(**options):
    maximizer = Multistart(n_samples=64, n_starts=2)
    return Algorithm(Sobol(), 4, ExactGP(restarts=0, kernel="rbf"), ADMMBO(start=4, **options), maximizer)


def on_line(X, failed=None):
    """f = (x + 1)^2 where x >= 0.3: the optimum is on the edge."""
    f, c = (X[:, 0] + 1) ** 2, 0.3 - X
    return Observations(X, f, maximize=False, constraints=c, failed=np.empty((0, 1)) if failed is None else failed)


def readings(x, f, satisfied):
    return TrialData(np.array(x)[:, None], np.array(f), np.array(satisfied, dtype=bool).reshape(len(x), -1))


def test_before_any_subproblem_each_copy_is_the_nearest_trial_that_satisfies():
    now = ORDER.replayed(readings([-0.8, 0.4], [0.0, 1.0], [False, True]))
    assert now.turn is None and now.rho == 0.5
    assert (now.x, now.z, now.y) == (-0.8, 0.4, 0.0)


def test_the_replay_is_the_alternation_by_hand():
    # Trial 3 is the optimality subproblem's: u = f + 1/4 (x - 0.4)^2 is least at -0.9.
    three = readings([-0.8, 0.4, -0.9], [0.0, 1.0, -0.5], [False, True, False])
    now = ORDER.replayed(three)
    assert (now.x, now.z, now.y, now.turn) == (-0.9, 0.4, 0.0, 0)
    # Trial 4 is the constraint's: h = 1/80 (z + 0.9)^2 is least at 0.1 of the two that satisfy it.
    four = readings([-0.8, 0.4, -0.9, 0.1], [0.0, 1.0, -0.5, 0.5], [False, True, False, True])
    now = ORDER.replayed(four)
    assert now.z == 0.1 and now.turn is None
    np.testing.assert_allclose(now.y, [[0.5 * (-0.9 - 0.1)]])
    # |x - z| = 1 and rho |z - 0.4| = 0.15 are within a factor of ten: the penalty stays.
    assert now.rho == 0.5
    # The multiplier draws x beyond z: u = f + 1/4 (x - 0.1 + y/rho)^2 is f + 1/4 (x - 1.1)^2.
    np.testing.assert_allclose(now.augmentation(np.array([[0.6]])), 0.25 * 0.5**2)


def test_a_constraint_that_holds_at_the_solution_has_no_trial_of_its_own():
    now = ORDER.replayed(readings([-0.8, 0.4, 0.6], [1.0, 2.0, 0.0], [True, True, True]))
    assert (now.x, now.z, now.y, now.turn) == (0.6, 0.6, 0.0, None)


def test_the_penalty_rises_while_the_copies_stay_apart_and_falls_when_they_jump():
    x, f, satisfied = [-0.8, 0.4, -0.9, 0.9], [0.0, 1.0, -0.5, 2.0], [False, True, False, True]
    assert ORDER.replayed(readings(x, f, satisfied)).rho == 1.0  # z stays at 0.4
    far = Alternation(start=2, each=1, rho=50.0, M=20.0)
    x, f, satisfied = [-0.8, 0.4, -0.9, -0.85], [0.0, 1.0, -4e3, 2.0], [False, True, False, True]
    assert far.replayed(readings(x, f, satisfied)).rho == 25.0  # z jumps by 1.25 to within 0.05


def test_turns_go_round_the_constraints_that_are_not_satisfied():
    x, f = [-0.8, 0.4, -0.9, 0.1, 0.2], [0.0, 1.0, -0.5, 0.5, 0.6]
    both = readings(x, f, [[False, False], [True, True], [False, False], [True, True], [True, True]])
    turns = [ORDER.replayed(both.first(n)).turn for n in (2, 3, 4, 5)]
    assert turns == [None, 0, 1, None]
    slow = Alternation(start=2, each=2, rho=0.5, M=20.0)
    assert [slow.replayed(both.first(n)).turn for n in (2, 3, 4, 5)] == [None, None, 0, 0]


@pytest.fixture(scope="module")
def data():
    return on_line(np.array([[-0.9], [-0.2], [0.5], [0.9], [-0.95]]))


@pytest.fixture(scope="module")
def posterior(data):
    return words().fit(data, rng())


def score_of(data, posterior, **options):
    return ADMMBO(start=4, **options).score(posterior, data, NONE, 1, rng())


def standing(data, **options):
    order = Alternation(4, 1, options.get("rho", 0.1), options.get("M", 50.0))
    return order, order.replayed(TrialData(data.X, data.targets, data.constraints <= 0))


def test_the_feasibility_improvement_is_its_expectation():
    data = on_line(np.array([[-0.2], [0.5], [0.9], [0.6], [0.8], [0.7], [0.85]]))
    posterior, options = words().fit(data, rng()), {"rho": 0.1, "M": 1 / 30}
    order, now = standing(data, **options)
    # x = -0.2 and z = 0.5 have made y/rho = -0.35, and no trial is near x + y/rho.
    assert now.turn == 0 and now.rho == 0.2
    np.testing.assert_allclose(now.target(0), -0.55)
    mean, sd = (each[:, 0].detach().numpy() for each in posterior.excess(GRID))
    violated = rng(1).normal(mean, sd, (20_000, len(GRID))) > 0
    h = violated + now.rho / (2 * order.M) * np.sum((GRID.numpy() - now.target(0)) ** 2, axis=1)
    least = order.feasibility(now, 0, TrialData(data.X, data.targets, data.constraints <= 0)).min()
    improvement = np.maximum(least - h, 0)
    value = score_of(data, posterior, **options).value(GRID, 0, NONE).detach().numpy()
    error = 4 * improvement.std(axis=0) / np.sqrt(len(h)) + 10 / len(h)
    assert (least - h.min(axis=0) > 1).any() and (value < 0).any() and (value > 0).any()
    assert np.all(np.abs(improvement.mean(axis=0) - np.maximum(value, 0)) < error)


def test_the_optimality_improvement_is_that_of_the_augmented_objective(posterior):
    start = on_line(np.array([[-0.9], [-0.2], [0.5], [0.9]]))
    fitted = words().fit(start, rng())
    _, now = standing(start, rho=3.0)
    assert now.turn is None
    added = now.augmentation(GRID.numpy())
    mean, variance = (each.detach().numpy() for each in fitted.objective.mean_var(GRID))
    seen = fitted.objective.mean_var(torch.tensor(start.X))[0].detach().numpy() + now.augmentation(start.X)
    gap, sd = seen.min() - mean - added, np.sqrt(variance)
    expected = gap * stats.norm.cdf(gap / sd) + sd * stats.norm.pdf(gap / sd)
    value = score_of(start, fitted, rho=3.0).value(GRID, 0, NONE).detach().exp().numpy()
    likely = expected > 1e-10
    assert likely.sum() > 5
    np.testing.assert_allclose(value[likely], expected[likely], rtol=1e-5)


@pytest.mark.parametrize("n", [4, 5])
def test_both_improvements_count_by_the_probability_of_a_result(n):
    X = np.array([[-0.9], [-0.2], [0.5], [0.9], [-0.95]])[:n]
    known, hidden = on_line(X), on_line(X, failed=np.array([[0.35], [0.4]]))
    likely = words().fit(hidden, rng())
    without = ADMMBO(start=4).score(words().fit(known, rng()), known, NONE, 1, rng()).value(GRID, 0, NONE)
    value = ADMMBO(start=4).score(likely, hidden, NONE, 1, rng()).value(GRID, 0, NONE)
    log = likely.hidden.log_probability(GRID)
    expected = without + log if n == 4 else torch.where(without > 0, without * log.exp(), without)
    torch.testing.assert_close(value, expected, rtol=1e-3, atol=1e-6)


def test_without_constraints_it_is_expected_improvement(data):
    free = data.objective
    posterior = words().fit(free, rng())
    values = [a.score(posterior, free, NONE, 1, rng()).value(GRID, 0, NONE) for a in (ADMMBO(), LogEI())]
    torch.testing.assert_close(*values)


def test_it_finds_the_constrained_optimum_of_a_line():
    X = np.array([[-0.9], [-0.3], [0.5], [0.95]])
    for t in range(7):
        data = on_line(X)
        algorithm = words()
        found = algorithm.propose(algorithm.fit(data, rng(t)), data, np.empty((0, 1)), LINE, 1, rng(100 + t))
        X = np.vstack([X, found.X])
    assert X[X[:, 0] >= 0.3].min() < 0.32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": -1}, "start is -1: give 0 or more"),
        ({"each": 0}, "each is 0: give 1 or more"),
        ({"rho": 0.0}, "rho is 0.0: give a positive number"),
        ({"M": -1.0}, "M is -1.0: give a positive number"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ADMMBO(**options)


def test_what_a_copy_is_drawn_to_moves_by_its_own_multiplier():
    now = Iterate(np.zeros(1), np.zeros((2, 1)), np.array([[1.0], [-2.0]]), 4.0)
    assert (now.target(0), now.target(1)) == (0.25, -0.5)


def test_the_places_of_a_batch_take_the_turns_that_single_trials_would():
    data = on_line(np.array([[-0.9], [-0.2], [0.5], [0.9]]))
    rule = words()
    posterior = rule.fit(data, rng())
    first, second, third = rule.propose(posterior, data, NONE, LINE, 3, rng(1)).X[:, 0]
    after = on_line(np.append(data.X, [[first]], axis=0))
    single = rule.propose(rule.fit(after, rng()), after, NONE, LINE, 1, rng(1)).X[0, 0]
    assert first < -0.5 and third < -0.5  # the objective's turn, where it is small
    assert second == pytest.approx(single, abs=0.05) and second > 0.2  # the constraint's, where it holds
