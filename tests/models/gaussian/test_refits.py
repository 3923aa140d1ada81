"""Hyper-parameters over a growing campaign: functions of the trials alone, and as good as a fit from the priors."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fieldcraft.models.gaussian import fit
from fieldcraft.models.gaussian.fit import LogPosterior, Question
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.observations import Observations

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (310, 3))
Y = 5 + np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=len(X))


@pytest.fixture(autouse=True)
def nothing_remembered():
    fit.from_priors.cache_clear()


def asked(n, most=1000, starts=3, known=False, y=Y, **changes):
    data = Observations(**{"X": X[:n], "y": y[:n], "maximize": False, **changes})
    return Question("matern52", known, starts, most, ByDigest.of(data))


def ascents(monkeypatch):
    """The starts and the numbers of trials of all ascents from now on."""
    begun, plain, several = [], LogPosterior.maximised, fit.together

    def noted(self, theta):
        begun.append((len(self.X), theta.copy()))
        return plain(self, theta)

    def all_noted(density, thetas):
        begun.extend((len(density.X), theta.copy()) for theta in thetas)
        return several(density, thetas)

    monkeypatch.setattr(LogPosterior, "maximised", noted)
    monkeypatch.setattr(fit, "together", all_noted)
    return begun


@pytest.mark.parametrize("n", [37, 57, 110])
def test_the_fit_is_the_same_with_and_without_what_a_process_remembers(n):
    alone = asked(n).answer()
    fit.from_priors.cache_clear()
    for before in range(max(8, n - 9), n):
        asked(before).answer()
    after = asked(n).answer()
    assert np.array_equal(after.theta, alone.theta)
    assert after.log_posterior == alone.log_posterior


def test_later_trials_do_not_change_what_a_fit_begins_at(monkeypatch):
    begun = ascents(monkeypatch)
    asked(57).answer()
    first = begun[-1][1]
    fit.from_priors.cache_clear()
    other = Y.copy()
    other[55:] += 3.0
    asked(57, y=other).answer()
    scales, noise = begun[-1][1][:-1], begun[-1][1][-1]
    assert np.array_equal(scales, first[:-1])
    # Of targets with a larger spread the same noise is a smaller part.
    spread = np.std(Y[:57], ddof=1) / np.std(other[:57], ddof=1)
    assert noise - first[-1] == pytest.approx(2 * math.log(spread), rel=1e-9)


def test_up_to_fifty_trials_and_at_each_tenth_of_growth_there_are_several_starts_else_one(monkeypatch):
    begun = ascents(monkeypatch)
    counts = {}
    for n in (20, 50, 51, 54, 55, 56, 61):
        begun.clear()
        asked(n).answer()
        counts[n] = [size for size, _ in begun]
    assert counts == {20: [20] * 3, 50: [50] * 3, 51: [51], 54: [54], 55: [55] * 3, 56: [56], 61: [61] * 3}


@pytest.mark.parametrize(("n", "known"), [(57, False), (104, False), (57, True)])
def test_a_fit_that_begins_at_an_earlier_one_is_as_probable_as_one_from_the_priors(n, known):
    question = asked(n, known=known, **({"noise_sd": 0.1} if known else {}))
    assert question.answer().log_posterior >= fit.from_priors(question).log_posterior - 1e-3


def test_of_many_trials_a_part_chooses_the_start_and_all_are_fitted(monkeypatch):
    begun = ascents(monkeypatch)
    question = asked(300)
    density, _ = question.density()
    reached, _ = density.likeliest(3)
    assert [size for size, _ in begun] == [250] * 3 + [300]
    assert reached >= max(density.maximised(start)[0] for start in density.starts(3)) - 1e-3


def test_trials_beyond_the_most_are_left_out_by_a_rule_that_keeps_most_of_them():
    rows = [set(fit._spread(n, 40).tolist()) for n in range(30, 200)]
    assert rows[0] == set(range(30))
    assert {len(kept) for kept in rows[10:]} == {40}
    assert max(len(late - early) for early, late in pairwise(rows)) == 1
    assert set(asked(120, most=40).answer().rows.tolist()) == rows[90]


def test_the_first_results_may_be_constant():
    y = Y.copy()
    y[:55] = 1.0
    found = asked(57, y=y).answer()
    assert math.isfinite(found.log_posterior)


def test_a_question_is_another_if_its_noise_is_known():
    free = asked(50, noise_sd=0.1)
    assert len(free.answer().theta) == 4
    assert len(replace(free, known=True).answer().theta) == 3
