"""A process killed at every commit point: each transaction is there whole or not at all, and may be repeated."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledgers import (
    BACKENDS,
    SPEC,
    S,
    approve,
    begin,
    correct,
    edit,
    everything,
    finish_trial,
    grant,
    killed_at,
    proposal,
    step,
    trial_in,
)

from fieldcraft.storage.ledger import COMMIT_POINTS, TRANSACTIONS, Ledger, StaleTrial
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known, Trial, TrialState

Action = Callable[[Ledger, Any], object]
DONE_BEFORE: dict[str, Callable[[Ledger], object]] = {}  # by transaction: what has happened before it
MEASURED = [Known(design={"x": x, "n": 3, "material": "steel"}, outputs={"y": 10 * x}) for x in (0.25, 0.5)]
ACTIONS: dict[str, Action] = {}  # by transaction: the write itself, given what the preparation returned


def case(name: str, before: Callable[[Ledger], object], action: Action) -> None:
    DONE_BEFORE[name], ACTIONS[name] = before, action


def moving(before: TrialState, to: TrialState) -> None:
    def act(ledger: Ledger, trial: Trial) -> Trial:
        return step(ledger, trial, to)

    case(f"move.{to}", lambda ledger: trial_in(ledger, before, level=0), act)


def notified(ledger: Ledger) -> int:
    begin(ledger)
    return ledger.notify("heat", "approval waiting", "waits:0", {}).id


def shown(ledger: Ledger) -> None:
    begin(ledger)
    ledger.exported(ledger.pending()[0].id, "run")


def pick(ledger: Ledger, trial: Trial) -> None:
    ledger.pick(trial.id, trial.expect, "ana", "cheap", {"rule": "by name"})


def sealed(ledger: Ledger) -> None:
    begin(ledger)
    lease = ledger.acquire("heat")
    ledger.seal("there", [lease], "ana", "another machine")
    ledger.release(lease)


case("create", lambda ledger: None, lambda ledger, _: begin(ledger))
case("propose", begin, lambda ledger, _: ledger.propose("heat", 0, [proposal(0), proposal(1, level=0)], "test"))
case("adopt", begin, lambda ledger, _: ledger.adopt("heat", MEASURED, "ab" * 32, "import of data.csv", "test"))
case("approve", lambda ledger: trial_in(ledger, S.PROPOSED, level=0), approve)
case("reject", lambda ledger: trial_in(ledger, S.PROPOSED), lambda ledger, t: ledger.reject_all([grant(t)], "a", "no"))
case("edit", lambda ledger: trial_in(ledger, S.APPROVED), edit)
case("prioritise", lambda ledger: trial_in(ledger, S.APPROVED).id, lambda ledger, t: ledger.prioritise(t, 5, "a", ""))
case("pick", lambda ledger: trial_in(ledger, S.COMPLETED).id, lambda ledger, t: pick(ledger, ledger.trial(t)))
moving(S.APPROVED, S.PROPOSED)
moving(S.FAILED, S.APPROVED)
moving(S.APPROVED, S.STAGED)
moving(S.STAGED, S.RUNNING)
moving(S.RUNNING, S.FAILED)
moving(S.RUNNING, S.ABANDONED)
moving(S.PROPOSED, S.REJECTED)
moving(S.STAGED, S.HELD)
case("hear", lambda ledger: trial_in(ledger, S.RUNNING).id, lambda ledger, t: ledger.hear(t, 1))
case("record", lambda ledger: trial_in(ledger, S.RUNNING, level=0), finish_trial)
case("correct", lambda ledger: trial_in(ledger, S.COMPLETED), lambda ledger, t: correct(ledger, t, 2.5))
case("note.collocate", begin, lambda ledger, _: ledger.note("heat", 0, "collocate", {"n": 64}, None))
case("note.train", begin, lambda ledger, _: ledger.note("heat", 0, "train", {"loss": 0.5}, None))
case("note.acquire", begin, lambda ledger, _: ledger.note("heat", 0, "acquire", {"seconds": 0.5}, None))
case("note.warm_start", begin, lambda ledger, _: ledger.note("heat", 0, "warm_start", {"until": [3]}, None))
case("finish", begin, lambda ledger, _: ledger.finish("heat", "the budget is spent", "test"))
case("outbox.exported", begin, lambda ledger, _: ledger.exported(ledger.pending()[0].id, "run"))
case("notify", begin, lambda ledger, _: ledger.notify("heat", "approval waiting", "waits:0", {"trials": 1}))
case("notice.told", notified, lambda ledger, notice: ledger.told(notice, success=True))
case("unseal", lambda ledger: sealed(ledger), lambda ledger, _: ledger.unseal("ana", "the copy never arrived"))
case("take_over", begin, lambda ledger, _: ledger.take_over("ana", "from a backup", {"host": "other", "made": 1.5}))
case("mend", begin, lambda ledger, _: ledger.mend("heat", "ana", "the disk", {"does": "delete it"}))
case("outbox.forgotten", shown, lambda ledger, _: ledger.forget_exports("heat"))
# What a lease leaves behind is not part of what the ledger tells; three tests below look at it.
LEASES = ("lease.acquire", "lease.release", "lease.give")
MOVED = ("copy", "seal")  # the tests at the end look at them


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Callable[[Path], Ledger]:
    return BACKENDS[request.param]


def test_every_transaction_is_killed_in_this_file():
    assert {*ACTIONS, *LEASES, *MOVED, "schema", "upgrade"} == set(
        TRANSACTIONS
    )  # test_sqlite_upgrade.py kills the last
    assert len(COMMIT_POINTS) == 2 * len(TRANSACTIONS) == len(set(COMMIT_POINTS))


@pytest.mark.parametrize("name", ACTIONS)
def test_a_kill_before_the_commit_leaves_nothing_and_after_it_leaves_all(backend, name, tmp_path):
    for folder in ("killed", "whole"):
        (tmp_path / folder).mkdir()
    ledger, whole = backend(tmp_path / "killed"), backend(tmp_path / "whole")
    prepared, reference = DONE_BEFORE[name](ledger), DONE_BEFORE[name](whole)
    before = everything(ledger)
    ACTIONS[name](whole, reference)
    after = everything(whole)
    assert before != after

    assert killed_at(f"ledger.{name}.before", lambda: ACTIONS[name](ledger, prepared))
    assert everything(ledger) == before
    assert killed_at(f"ledger.{name}.after", lambda: ACTIONS[name](ledger, prepared))
    assert everything(ledger) == after

    if isinstance(prepared, Trial):
        with pytest.raises(StaleTrial, match="is no longer"):
            ACTIONS[name](ledger, prepared)
    elif name not in ("outbox.exported", "mend"):
        ACTIONS[name](ledger, prepared)
    assert everything(ledger) == after
    assert ledger.check() == []


@pytest.mark.parametrize("state", [S.RUNNING, S.FAILED])
def test_a_part_whose_recording_was_killed_is_there_whole_or_not_at_all(backend, state, tmp_path):
    ledger = backend(tmp_path)
    trial = trial_in(ledger, state)

    def add() -> Trial:
        return ledger.record(trial.id, trial.expect, {"y": 1.5}, None, "ana", "person", {}, partial=True)[0]

    before = everything(ledger)
    assert killed_at("ledger.record.before", add)
    assert everything(ledger) == before
    assert killed_at("ledger.record.after", add)
    assert [part.outputs for part in ledger.parts("heat")] == [{"y": 1.5}]
    after = everything(ledger)
    with pytest.raises(StaleTrial, match="is no longer"):
        add()
    assert everything(ledger) == after
    assert ledger.check() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_ledger_whose_making_was_killed_can_be_made_again(backend, when, tmp_path):
    assert killed_at(f"ledger.schema.{when}", lambda: backend(tmp_path))
    ledger = backend(tmp_path)
    begin(ledger)
    assert ledger.campaign("heat").spec == SPEC
    assert ledger.check() == []


@pytest.mark.parametrize(("when", "token"), [("before", 1), ("after", 2)])
def test_a_lease_whose_taking_was_killed_holds_nobody_up(backend, when, token, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)
    assert killed_at(f"ledger.lease.acquire.{when}", lambda: ledger.acquire("heat"))
    assert ledger.acquire("heat").token == token


@pytest.mark.parametrize(("when", "takeovers"), [("before", 1), ("after", 0)])
def test_a_lease_whose_return_was_killed_holds_nobody_up(backend, when, takeovers, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)
    assert killed_at(f"ledger.lease.release.{when}", lambda: ledger.release(ledger.acquire("heat")))
    assert ledger.acquire("heat").token == 2
    assert len([event for event in ledger.history("heat") if event.action == "lease"]) == takeovers


@pytest.mark.parametrize("when", ["before", "after"])
def test_trials_that_a_process_was_given_as_it_was_killed_are_nobodys(backend, when, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)
    assert killed_at(f"ledger.lease.give.{when}", lambda: ledger.give("heat", ["heat-0001"], ["heat-0001"]))
    assert ledger.given("heat") == frozenset()
    ledger.give("heat", ["heat-0001"], ["heat-0001"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_seal_that_was_killed_holds_whole_or_not_at_all(backend, when, tmp_path):
    ledger = backend(tmp_path)
    begin(ledger)
    lease = ledger.acquire("heat")
    assert killed_at(f"ledger.seal.{when}", lambda: ledger.seal("there", [lease], "ana", "another machine"))
    assert ledger.sealed() == (None if when == "before" else "there")
    assert len([event for event in ledger.history("heat") if event.action == "seal"]) == (when == "after")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_copy_that_was_killed_is_there_whole_or_not_at_all_and_can_be_made_again(backend, when, tmp_path):
    ledger, place = backend(tmp_path), tmp_path / "copy.sqlite"
    trial_in(ledger, S.COMPLETED)
    assert killed_at(f"ledger.copy.{when}", lambda: ledger.copy_to(open_ledger(place, create=True)))
    if when == "before":
        assert open_ledger(place).campaigns() == ()
        ledger.copy_to(open_ledger(place, create=True))
    assert everything(open_ledger(place)) == everything(ledger)
    assert open_ledger(place).check() == []
