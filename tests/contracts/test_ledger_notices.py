"""Notices for people, and signs of life of running trials. On every back end."""

from pathlib import Path

import pytest
from ledgers import BACKENDS, S, begin, everything, step, trial_in

from fieldcraft.storage.ledger import InvalidRecord, Ledger, StaleTrial, UnknownCampaign


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


def test_a_notice_is_written_once_for_each_key_of_a_campaign(ledger):
    begin(ledger)
    begin(ledger, "other")
    first = ledger.notify("heat", "approval waiting", "waits:3", {"trials": 2})
    assert (first.event, first.payload, first.told, first.tries) == ("approval waiting", {"trials": 2}, None, 0)
    assert ledger.notify("heat", "approval waiting", "waits:3", {"trials": 9}) == first
    second = ledger.notify("other", "approval waiting", "waits:3", {})
    assert ledger.notices() == (first, second)
    assert ledger.notices("other") == (second,)
    assert ledger.notices(limit=1) == (first,)


def test_a_notice_of_no_known_event_or_campaign_is_refused(ledger):
    begin(ledger)
    with pytest.raises(InvalidRecord, match="event = 'tea is ready' cannot be stored"):
        ledger.notify("heat", "tea is ready", "tea", {})
    with pytest.raises(UnknownCampaign, match="no campaign 'heet'"):
        ledger.notify("heet", "approval waiting", "waits:3", {})
    assert ledger.notices() == ()


def test_a_notice_waits_until_it_was_told_and_tries_that_failed_are_counted(ledger):
    begin(ledger)
    notice = ledger.notify("heat", "budget nearly spent", "budget", {})
    ledger.told(notice.id, success=False)
    ledger.told(notice.id, success=False)
    (waiting,) = ledger.notices()
    assert (waiting.id, waiting.tries) == (notice.id, 2)
    ledger.told(notice.id, success=True)
    assert ledger.notices() == ()
    again = ledger.notify("heat", "budget nearly spent", "budget", {})
    ledger.told(notice.id, success=False)
    assert ledger.notify("heat", "budget nearly spent", "budget", {}) == again
    assert again.told is not None and again.tries == 2


def test_all_notices_of_a_kind_are_listed_told_or_not(ledger):
    begin(ledger)
    begin(ledger, "other")
    first = ledger.notify("heat", "approval waiting", "one", {})
    ledger.notify("heat", "budget nearly spent", "budget", {})
    ledger.notify("other", "approval waiting", "one", {})
    second = ledger.notify("heat", "approval waiting", "two", {})
    ledger.told(first.id, success=True)
    assert [notice.id for notice in ledger.noticed("heat", "approval waiting")] == [first.id, second.id]


def test_a_trial_that_is_held_and_a_campaign_that_ends_leave_a_notice(ledger):
    held = trial_in(ledger, S.HELD)
    running = step(ledger, held, S.RUNNING)
    again = step(ledger, running, S.HELD)
    ledger.finish("heat", "the budget of 3 trials is spent", "pass")
    told = [(n.event, n.key) for n in ledger.notices("heat")]
    assert told == [
        ("submission unknown", f"held:{held.id}:{held.version}"),
        ("submission unknown", f"held:{held.id}:{again.version}"),
        ("campaign ended", "ended"),
    ]
    payload = {"trial": held.id, "attempt": 1, "was": "RUNNING", "reason": "to HELD"}
    assert ledger.notices()[0].payload == payload
    assert ledger.notices()[2].payload == {"reason": "the budget of 3 trials is spent"}


def test_a_sign_of_life_is_noted_without_a_new_version(ledger):
    trial = trial_in(ledger, S.RUNNING)
    assert trial.heard is None
    events = ledger.history("heat")
    heard = ledger.hear(trial.id, 1)
    assert heard.heard is not None and heard.expect == trial.expect and heard.updated == trial.updated
    assert ledger.hear(trial.id, 1).heard >= heard.heard
    assert ledger.history("heat") == events
    assert step(ledger, trial, S.FAILED).heard is not None  # the snapshot from before is not stale
    assert ledger.check() == []


def test_an_earlier_attempt_gives_no_sign_of_life_for_a_later_one(ledger):
    failed = step(ledger, ledger.hear(trial_in(ledger, S.RUNNING).id, 1), S.FAILED)
    staged = step(ledger, step(ledger, failed, S.APPROVED), S.STAGED)
    assert staged.heard is None
    running = step(ledger, staged, S.RUNNING)
    with pytest.raises(StaleTrial, match="no longer runs in attempt 1: it is RUNNING in attempt 2") as caught:
        ledger.hear(running.id, 1)
    assert caught.value.now == running.expect
    assert ledger.trial(running.id).heard is None


@pytest.mark.parametrize("state", sorted(set(S) - {S.RUNNING}))
def test_what_does_not_run_gives_no_sign_of_life(ledger, state):
    trial = trial_in(ledger, state)
    before = everything(ledger)
    with pytest.raises(StaleTrial, match=f"it is {state} in attempt {trial.attempt}"):
        ledger.hear(trial.id, 1)
    assert everything(ledger) == before
