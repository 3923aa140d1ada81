"""Spending of a campaign, of which a process reads again only the trials that changed."""

import math
from pathlib import Path

import pytest
from ledgers import S, approve, begin, finish_trial, proposal, step

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import OUT, Spending

TRIALS = 1003  # more than are summed up together


def summed(ledger: Ledger) -> tuple[int, float, float, float]:
    """The sums by definition: trials sent, spent, reserved, seconds."""
    trials = ledger.trials("heat")
    reserved = math.fsum(trial.cost for trial in trials if trial.state in OUT)
    spent, seconds = (math.fsum(getattr(trial, name) for trial in trials) for name in ("spent", "seconds"))
    return sum(trial.attempt > 0 for trial in trials), spent, reserved, seconds


def same(found: Spending, ledger: Ledger) -> None:
    sent, *amounts = summed(ledger)
    assert found.trials == sent
    assert [found.spent, found.reserved, found.seconds] == pytest.approx(amounts, rel=1e-12, abs=0.0)


def test_what_was_read_before_gives_the_sum_over_all_trials_whoever_changed_them(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    (tmp_path / "other").symlink_to(tmp_path)
    other = open_ledger(tmp_path / "other" / "ledger.db")  # another engine, as another process has
    begin(ledger, cost=2000.0)
    costs = [proposal(slot).model_copy(update={"cost": 1.0 + slot / 7}) for slot in range(TRIALS)]
    trials = ledger.propose("heat", 0, costs, "test")
    same(ledger.spending("heat"), ledger)
    for number, by in ((0, ledger), (998, other), (999, ledger), (TRIALS - 1, other)):
        staged = step(by, approve(by, trials[number]), S.STAGED)
        same(ledger.spending("heat"), ledger)
        running = step(by, staged, S.RUNNING, handle={"key": staged.id})
        if number % 2 == 0:
            finish_trial(by, running, cost=0.3, seconds=1.7)
        same(ledger.spending("heat"), ledger)
        assert other.spending("heat") == ledger.spending("heat")
    assert ledger.spending("heat").trials == 4
