"""Results of the ledger: appended, judged, never overwritten. On every back end."""

from pathlib import Path

import pytest
from ledgers import BACKENDS, S, everything, finish_trial, step, trial_in
from sqlalchemy import text

from fieldcraft.storage.ledger import ForbiddenMove, Ledger, StaleTrial
from fieldcraft.storage.records import FieldRef, Trial

FIELD = FieldRef(digest="ab" * 32, size=1000)


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


def test_a_field_and_a_result_are_kept_with_the_trial(ledger):
    trial = trial_in(ledger, S.RUNNING)
    done, result = ledger.record(trial.id, trial.expect, {"y": 1.5}, FIELD, "pass", "local", {"wall": 2.5})
    assert (done.state, done.outputs, done.field) == (S.COMPLETED, {"y": 1.5}, FIELD)
    assert ledger.results(trial.id) == (result,)
    assert (result.verdict, result.attempt, result.source, result.details) == ("accepted", 1, "local", {"wall": 2.5})


def test_a_result_that_comes_twice_is_stored_once(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    before = everything(ledger)
    (first,) = ledger.results(trial.id)
    same, result = ledger.record(trial.id, trial.expect, {"y": 1.5}, None, "test", "local", first.details)
    assert (same, result.verdict) == (trial, "duplicate")
    assert everything(ledger) == before


def test_what_is_said_later_of_the_same_values_is_kept_once_and_moves_nothing(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    for _ in range(2):
        same, result = ledger.record(trial.id, trial.expect, {"y": 1.5}, None, "test", "local", {"sd": {"y": 0.1}})
        assert (same, result.verdict) == (trial, "duplicate")
    first, second = ledger.results(trial.id)
    assert (first.details, second.details) == ({}, {"sd": {"y": 0.1}})
    assert ledger.check() == []


def test_another_result_of_a_completed_trial_is_kept_and_moves_nothing(ledger):
    trial = trial_in(ledger, S.COMPLETED)
    same, result = ledger.record(trial.id, trial.expect, {"y": 2.5}, None, "test", "person", {})
    assert (same, result.verdict) == (trial, "superseded")
    assert [r.verdict for r in ledger.results(trial.id)] == ["accepted", "superseded"]
    assert ledger.trial(trial.id).outputs == {"y": 1.5}
    assert ledger.check() == []


def test_a_late_result_of_an_earlier_attempt_is_kept_and_moves_nothing(ledger):
    failed = trial_in(ledger, S.FAILED)
    running = step(ledger, step(ledger, step(ledger, failed, S.APPROVED), S.STAGED), S.RUNNING)
    same, late = ledger.record(running.id, running.expect, {"y": 1.5}, None, "test", "local", {}, attempt=1)
    assert (same, late.verdict, late.attempt) == (running, "superseded", 1)
    done = finish_trial(ledger, running, 1.5)
    same, repeat = ledger.record(done.id, done.expect, {"y": 1.5}, None, "test", "local", {}, attempt=1)
    assert (same, repeat.verdict, repeat.id) == (done, "duplicate", late.id)
    assert [(r.attempt, r.verdict) for r in ledger.results(done.id)] == [(1, "superseded"), (2, "accepted")]


def test_a_late_result_of_an_abandoned_trial_is_kept_once_and_moves_nothing(ledger):
    trial = trial_in(ledger, S.ABANDONED)
    for _ in range(2):
        same, result = ledger.record(trial.id, trial.expect, {"y": 1.5}, None, "test", "local", {})
        assert (same, result.verdict) == (trial, "superseded")
    assert len(ledger.results(trial.id)) == 1
    assert ledger.check() == []


@pytest.mark.parametrize("state", [S.FAILED, S.HELD])
def test_a_late_result_of_the_present_attempt_is_accepted(ledger, state):
    trial = trial_in(ledger, state)
    done = finish_trial(ledger, trial)
    assert (done.state, done.outputs, done.failure) == (S.COMPLETED, {"y": 1.5}, None)


def test_a_result_of_an_attempt_that_was_never_sent_is_refused(ledger):
    trial = trial_in(ledger, S.RUNNING)
    with pytest.raises(ForbiddenMove, match="attempt 2 of heat-0001 cannot be recorded: it has been sent 1 times"):
        ledger.record(trial.id, trial.expect, {"y": 1.5}, None, "test", "local", {}, attempt=2)
    proposed = trial_in(ledger, S.PROPOSED, iteration=1)
    with pytest.raises(ForbiddenMove, match="it has been sent 0 times"):
        finish_trial(ledger, proposed)


def add_part(ledger: Ledger, trial: Trial, **outputs: float) -> Trial:
    return ledger.record(trial.id, trial.expect, outputs, None, "test", "person", {}, partial=True)[0]


@pytest.mark.parametrize("state", [S.RUNNING, S.HELD, S.FAILED])
def test_a_part_is_recorded_only_by_who_has_seen_the_parts_before_it(ledger, state):
    trial = trial_in(ledger, state)
    after = add_part(ledger, trial, y=1.5)
    assert (after.state, after.version, after.outputs) == (state, trial.version + 1, None)
    assert after.updated == trial.updated  # when its attempt was sent, held or failed
    for partial in (True, False):
        with pytest.raises(StaleTrial, match="is no longer"):
            ledger.record(trial.id, trial.expect, {"z": 2.5}, None, "test", "person", {}, partial=partial)
    add_part(ledger, after, y=1.5, z=2.5)
    assert [part.outputs for part in ledger.parts("heat")] == [{"y": 1.5}, {"y": 1.5, "z": 2.5}]
    assert ledger.check() == []


def test_a_part_of_a_failed_trial_is_no_new_failure(ledger):
    trial = trial_in(ledger, S.FAILED)
    (before,) = ledger.retriable("heat")
    add_part(ledger, trial, y=1.5)
    (after,) = ledger.retriable("heat")
    assert after.failed == before.failed


def test_a_part_that_comes_twice_is_stored_once_and_the_trial_keeps_its_version(ledger):
    after = add_part(ledger, trial_in(ledger, S.RUNNING), y=1.5)
    before = everything(ledger)
    assert add_part(ledger, after, y=1.5) == after
    assert everything(ledger) == before


def test_parts_of_an_earlier_version_which_kept_the_trials_version_are_no_contradiction(ledger):
    trial = trial_in(ledger, S.RUNNING)
    add_part(ledger, trial, y=1.5)
    with ledger._engine.connect().execution_options(write=True) as connection:
        for table in ("trials", "events"):
            last = "state = 'RUNNING'" if table == "trials" else "action = 'record'"
            connection.execute(text(f"UPDATE {table} SET version = version - 1 WHERE {last}"))
        connection.commit()
    assert ledger.trial(trial.id).version == trial.version
    assert ledger.check() == []
