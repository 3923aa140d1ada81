"""Budgets: reserved when a trial is staged, settled once when its attempt ends. On every back end."""

from pathlib import Path

import pytest
from ledgers import BACKENDS, S, approve, begin, correct, everything, finish_trial, proposal, step

from fieldcraft.storage.ledger import BudgetSpent, InvalidRecord, Ledger, UnknownCampaign
from fieldcraft.storage.records import Spending, Trial


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


def approved(ledger: Ledger, n: int, cost: float = 1.0, attempts: int = 3) -> list[Trial]:
    proposals = [proposal(slot).model_copy(update={"cost": cost}) for slot in range(n)]
    return [approve(ledger, trial, attempts) for trial in ledger.propose("heat", 0, proposals, "test")]


def running(ledger: Ledger, trial: Trial) -> Trial:
    return step(ledger, step(ledger, trial, S.STAGED), S.RUNNING)


def spent(trial: Trial) -> tuple[float, float]:
    return trial.spent, trial.seconds


def test_a_campaign_keeps_its_limits_and_nothing_spends_nothing(ledger):
    begin(ledger, trials=3, cost=2.5, seconds=60.0, attempt_seconds=10.0)
    limits = ledger.campaign("heat").limits
    assert (limits.trials, limits.cost, limits.seconds, limits.attempt_seconds) == (3, 2.5, 60.0, 10.0)
    nothing = Spending(trials=0, spent=0.0, reserved=0.0, seconds=0.0, seconds_reserved=0.0)
    assert ledger.spending("heat") == nothing
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.spending("heet")


def test_what_is_out_is_reserved_and_what_is_back_is_spent(ledger):
    begin(ledger, attempt_seconds=10.0)
    first, second, third, _ = approved(ledger, 4, cost=2.0)
    running(ledger, first)
    held = step(ledger, running(ledger, second), S.HELD)
    finish_trial(ledger, running(ledger, third), cost=3.5, seconds=4.0)
    now = ledger.spending("heat")
    assert (now.trials, now.spent, now.reserved, now.seconds, now.seconds_reserved) == (3, 3.5, 4.0, 4.0, 20.0)
    step(ledger, held, S.ABANDONED)
    now = ledger.spending("heat")
    assert (now.trials, now.spent, now.reserved, now.seconds, now.seconds_reserved) == (3, 5.5, 2.0, 14.0, 10.0)
    assert ledger.check() == []


def test_a_run_of_a_coarser_level_costs_and_takes_none_of_the_trials(ledger):
    begin(ledger, trials=1, cost=2.0)
    of_levels = [proposal(0, level=1), proposal(1, level=0), proposal(2), proposal(3)]
    costly = [
        each.model_copy(update={"cost": cost}) for each, cost in zip(of_levels, (0.25, 0.5, 1.0, 1.0), strict=True)
    ]
    *lower, target, another = [approve(ledger, trial) for trial in ledger.propose("heat", 0, costly, "test")]
    finish_trial(ledger, running(ledger, lower[0]))
    finish_trial(ledger, running(ledger, target))
    running(ledger, lower[1])
    now = ledger.spending("heat")
    assert (now.trials, now.spent, now.reserved) == (1, 1.25, 0.5)
    with pytest.raises(BudgetSpent, match="1 of the 1 trials"):
        step(ledger, another, S.STAGED)
    assert [(each.level, each.counts) for each in ledger.summaries("heat")] == [
        (1, False),
        (0, False),
        (None, True),
        (None, False),
    ]
    assert ledger.check() == []


@pytest.mark.parametrize("to", [S.FAILED, S.ABANDONED])
def test_an_attempt_that_ends_costs_what_is_said_or_else_what_was_reserved(ledger, to):
    begin(ledger, attempt_seconds=10.0)
    first, second = approved(ledger, 2, cost=2.0)
    assert spent(step(ledger, running(ledger, first), to)) == (2.0, 10.0)
    assert spent(step(ledger, running(ledger, second), to, cost=0.0, seconds=0.5)) == (0.0, 0.5)
    assert ledger.history("heat", second.id)[-1].details["spent"] == 0.0
    assert ledger.check() == []


def test_amounts_whose_sum_is_no_number_any_more_still_spend_a_number(ledger):
    begin(ledger, cost=10.0, attempt_seconds=10.0)
    first, second, third = approved(ledger, 3, cost=2.0)
    for trial in [running(ledger, trial) for trial in (first, second)]:
        finish_trial(ledger, trial, cost=1.7e308, seconds=1.7e308)
    now = ledger.spending("heat")
    assert (now.spent, now.seconds) == (2e300, 2e300)
    with pytest.raises(BudgetSpent, match="heat-0003 cannot be sent: 2e\\+300 of the 10 budget units"):
        running(ledger, third)


@pytest.mark.parametrize("door", ["move", "approve"])
def test_a_held_attempt_that_is_sent_again_is_settled(ledger, door):
    begin(ledger, attempt_seconds=10.0)
    (trial,) = approved(ledger, 1, cost=2.0)
    held = step(ledger, running(ledger, trial), S.HELD)
    assert spent(held) == (0.0, 0.0)
    again = step(ledger, held, S.APPROVED) if door == "move" else approve(ledger, held)
    assert spent(again) == (2.0, 10.0)
    done = finish_trial(ledger, running(ledger, again), cost=1.0, seconds=1.0)
    assert spent(done) == (3.0, 11.0)
    assert ledger.check() == []


def test_a_late_result_adds_what_its_attempt_cost_beyond_what_was_charged_and_gives_nothing_back(ledger):
    begin(ledger, attempt_seconds=10.0)
    first, second = approved(ledger, 2, cost=2.0)
    again = step(ledger, step(ledger, running(ledger, first), S.FAILED), S.APPROVED)
    failed = step(ledger, running(ledger, again), S.FAILED, cost=0.5, seconds=1.0)
    assert spent(failed) == (2.5, 11.0)
    done = finish_trial(ledger, failed, cost=7.0, seconds=0.25)
    assert spent(done) == (9.0, 11.0)
    assert ledger.history("heat", done.id)[-1].details["spent"] == 6.5
    assert spent(correct(ledger, done, 2.5)) == (9.0, 11.0)
    cancelled = step(ledger, running(ledger, second), S.FAILED, failure="cancelled", seconds=3.0)
    with pytest.raises(InvalidRecord, match=r"What attempt 1 of heat-0002 came to: spent = -1.0 cannot be stored"):
        finish_trial(ledger, cancelled, cost=-1.0)
    assert spent(finish_trial(ledger, cancelled, cost=1.0, seconds=4.0)) == (2.0, 4.0)
    assert ledger.spending("heat").spent == 11.0
    assert ledger.check() == []


def test_a_late_result_of_which_no_cost_is_told_adds_nothing(ledger):
    begin(ledger, attempt_seconds=10.0)
    (trial,) = approved(ledger, 1, cost=2.0)
    done = finish_trial(ledger, step(ledger, running(ledger, trial), S.FAILED))
    assert spent(done) == (2.0, 10.0)
    assert "spent" not in ledger.history("heat", done.id)[-1].details
    assert ledger.check() == []


@pytest.mark.parametrize(("name", "value"), [("cost", -1.0), ("seconds", float("nan"))])
def test_a_cost_that_is_none_is_refused_and_changes_nothing(ledger, name, value):
    begin(ledger)
    trial = running(ledger, approved(ledger, 1)[0])
    before = everything(ledger)
    with pytest.raises(InvalidRecord, match=r"What attempt 1 of heat-0001 came to: \w+ = .* cannot be stored"):
        step(ledger, trial, S.FAILED, **{name: value})
    with pytest.raises(InvalidRecord, match=r"What attempt 1 of heat-0001 came to: \w+ = .* cannot be stored"):
        finish_trial(ledger, trial, **{name: value})
    assert everything(ledger) == before


def test_no_more_trials_are_sent_than_the_limit_and_a_retry_is_no_further_trial(ledger):
    begin(ledger, trials=2)
    first, second, third = approved(ledger, 3)
    failed = step(ledger, running(ledger, first), S.FAILED)
    finish_trial(ledger, running(ledger, second))
    before = everything(ledger)
    with pytest.raises(BudgetSpent, match=r"heat-0003 cannot be sent: 2 of the 2 trials of 'heat' are spent"):
        step(ledger, third, S.STAGED)
    assert everything(ledger) == before
    assert step(ledger, step(ledger, failed, S.APPROVED), S.STAGED).attempt == 2


def test_what_is_out_counts_against_the_cost_and_what_came_cheaper_is_free_again(ledger):
    begin(ledger, cost=0.3)
    first, second, third, fourth = approved(ledger, 4, cost=0.1)
    one = running(ledger, first)
    running(ledger, second)
    running(ledger, third)  # 0.1 + 0.1 + 0.1 is more than 0.3 by rounding only
    with pytest.raises(BudgetSpent, match=r"0\.3 of the 0\.3 budget units of 'heat' are spent .* 0\.1 more"):
        step(ledger, fourth, S.STAGED)
    finish_trial(ledger, one, cost=0.0)
    assert step(ledger, fourth, S.STAGED).attempt == 1


def test_the_wall_time_of_what_is_out_counts_with_its_limit(ledger):
    begin(ledger, seconds=25.0, attempt_seconds=10.0)
    first, second, third = approved(ledger, 3)
    one = running(ledger, first)
    running(ledger, second)
    with pytest.raises(BudgetSpent, match=r"20 of the 25 s of wall time of 'heat' .* 10 more"):
        step(ledger, third, S.STAGED)
    step(ledger, one, S.FAILED, seconds=5.0)
    assert step(ledger, third, S.STAGED).attempt == 1


def test_trials_that_were_rejected_or_never_sent_count_for_nothing(ledger):
    begin(ledger, trials=1, cost=1.0)
    first, second, third = approved(ledger, 3)
    step(ledger, first, S.REJECTED)
    step(ledger, second, S.PROPOSED)
    assert step(ledger, third, S.STAGED).attempt == 1
    assert ledger.spending("heat").trials == 1
