"""The schedule of refits against its own definition, and the trials that stand for others."""

from functools import lru_cache

import numpy as np
import pytest

from fieldcraft.models.numerics.milestones import (
    ByDigest,
    asked,
    beginning,
    milestone,
    representative,
    telling,
    thinned,
)
from fieldcraft.models.observations import Observations


def test_milestones_are_all_sizes_to_50_and_then_grow_by_a_tenth():
    assert [milestone(n) for n in (0, 1, 7, 50, 51, 54, 55, 60, 61, 70)] == [0, 1, 7, 50, 50, 50, 55, 55, 61, 68]


@pytest.mark.parametrize("n", [3, 50, 77, 500, 2000, 20_000])
def test_a_milestone_is_its_own_and_within_a_tenth(n):
    found = milestone(n)
    assert milestone(found) == found <= n < 1.1 * found + 1


def test_trials_as_an_argument_are_told_by_their_digest_alone():
    X = np.linspace(-1, 1, 6)[:, None]
    data, same = (Observations(X.copy(), X[:, 0] ** 2, maximize=False) for _ in range(2))
    asked = []

    @lru_cache
    def answer(trials):
        asked.append(len(trials.data))
        return trials.data

    assert answer(ByDigest.of(data)) is answer(ByDigest.of(same)) is data
    assert answer(ByDigest.of(data.first(4))).y.tolist() == data.y[:4].tolist()
    assert asked == [6, 4]


def test_a_fit_begins_at_the_results_of_the_last_milestone_or_at_all_if_those_are_constant():
    X, y = np.linspace(-1, 1, 57)[:, None], np.arange(57.0)
    data = Observations(X, y, maximize=False)
    assert [len(beginning(data.first(n))) for n in (7, 50, 54, 55, 57)] == [7, 50, 50, 55, 55]
    late = Observations(X, np.where(np.arange(57) < 56, 1.0, 2.0), maximize=False)
    assert len(beginning(late)) == 57
    assert beginning(data).scaling.sd == pytest.approx(np.std(y[:55], ddof=1))


@pytest.mark.parametrize(("late", "seen"), [(56.0, 55), (1e4, 55), (1e5, 57), (1e300, 57)])
def test_hyper_parameters_are_those_of_all_results_where_one_after_the_milestone_dwarfs_the_first(late, seen):
    y = np.arange(57.0)
    y[-1] = late
    data = Observations(np.linspace(-1, 1, 57)[:, None], y, maximize=False)
    assert len(representative(data)) == seen and len(beginning(data)) == 55


def test_trials_that_hyper_parameters_are_fitted_to_hold_a_result_that_dwarfs_theirs():
    y = np.random.default_rng(1).standard_normal(300)
    X, missed = np.linspace(-1, 1, 300)[:, None], np.setdiff1d(np.arange(300), thinned(300, 40))[[3, 90]]
    for far, held in ((30.0, False), (-1e3, True), (1e3, True), (1e300, True)):
        odd = y.copy()
        odd[missed] = far, 2 * far
        rows = asked(Observations(X, odd, maximize=False), 40)
        assert len(rows) == 40 and np.array_equal(rows, np.unique(rows))
        assert (missed[1] in rows) is held and (held or np.array_equal(rows, thinned(300, 40)))
    for same in (np.full(300, 0.1), 0.1 + 1e-17 * y):
        assert np.array_equal(asked(Observations(X, same, maximize=False), 40), thinned(300, 40))


def test_trials_that_tell_are_the_best_the_last_and_others():
    y = np.random.default_rng(0).standard_normal(500)
    rows = telling(y, 40)
    assert set(np.argsort(y)[:20]) | set(range(490, 500)) | {0, 499} <= set(rows)
    assert np.array_equal(rows, np.unique(rows)) and len(rows) <= 40
    assert telling(y[:40], 40).tolist() == list(range(40))
