"""Copies of a ledger, its seal, and its new life elsewhere: the same promises of every back end."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from ledgers import BACKENDS, SPEC, S, approve, begin, everything, finish_trial, proposal, step, trial_in
from postgres_server import url_of

from fieldcraft.storage.ledger import InvalidRecord, LeaseHeld, LeaseLost, Ledger, LedgerError, Sealed
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import digest_of


@pytest.fixture(params=BACKENDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture(params=BACKENDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger may be made; a URL has a password in it."""
    (tmp_path / "target").mkdir()
    url = url_of(tmp_path / "target").replace("postgres@", "postgres:hush@")
    return url if request.param == "postgresql" else str(tmp_path / "target" / "ledger.sqlite")


def seal(ledger: Ledger) -> None:
    lease = ledger.acquire("heat")
    ledger.seal("/elsewhere", [lease], "ana", "a larger machine")
    ledger.release(lease)


def test_a_copy_tells_everything_that_the_ledger_tells_and_counts_on_from_there(ledger, tmp_path):
    trial = trial_in(ledger, S.COMPLETED)
    ledger.note("heat", 0, "train", {"loss": 1 / 3, "order": {"z": 1, "a": 2}}, None)
    ledger.notify("heat", "approval waiting", "waits:0", {})
    ledger.copy_to(open_ledger(tmp_path / "copy.sqlite", create=True))
    copy = open_ledger(tmp_path / "copy.sqlite")
    assert everything(copy) == everything(ledger)
    assert copy.trial(trial.id) == ledger.trial(trial.id)
    assert list(copy.products("heat")[0].payload["order"]) == ["z", "a"]
    assert copy.created() == ledger.created()
    assert copy.check() == []
    for each in (ledger, copy):
        each.propose("heat", 1, [proposal(iteration=1)], "test")
    assert everything(copy) == everything(ledger)
    assert [e.id for e in copy.history("heat")] == [e.id for e in ledger.history("heat")]


def test_a_sealed_ledger_is_copied_into_every_back_end_and_goes_on_there(ledger, tmp_path, target):
    trial_in(ledger, S.COMPLETED)
    ledger.note("heat", 0, "train", {"order": {"z": 1, "a": 2}}, None)
    for item in ledger.pending():
        ledger.exported(item.id, f"run-{item.id}")
    seal(ledger)
    ledger.copy_to(open_ledger(target, create=True))
    copy = open_ledger(target)
    for read in (lambda each: each.summaries("heat"), lambda each: each.tracked("heat"), everything):
        assert read(copy) == read(ledger)
    assert copy.sealed() == "/elsewhere"
    copy.take_over("ben", "restored", {"host": "old"})
    copy.propose("heat", 1, [proposal(iteration=1)], "test")
    assert [e.id for e in copy.history("heat")] == list(range(1, len(copy.history("heat")) + 1))
    assert copy.check() == []


def test_a_copy_is_of_one_instant_while_others_write(ledger, tmp_path):
    begin(ledger)
    writing = ledger.propose("heat", 0, [proposal(slot) for slot in range(4)], "test")
    ledger.copy_to(open_ledger(tmp_path / "copy.sqlite", create=True))
    for trial in writing:
        finish_trial(ledger, step(ledger, step(ledger, approve(ledger, trial), S.STAGED), S.RUNNING))
    copy = open_ledger(tmp_path / "copy.sqlite")
    assert {trial.state for trial in copy.trials("heat")} == {S.PROPOSED}
    assert copy.check() == []


def test_a_ledger_is_never_copied_over_one_that_holds_campaigns(ledger, target):
    begin(ledger)
    ledger.copy_to(open_ledger(target, create=True))
    with pytest.raises(LedgerError, match="holds campaigns already") as refused:
        ledger.copy_to(open_ledger(target, create=True))
    assert "hush" not in str(refused.value)


def test_a_ledger_that_cannot_be_read_is_the_one_that_is_named_when_it_is_copied(tmp_path, target):
    ledger = BACKENDS["sqlite"](tmp_path)
    trial_in(ledger, S.COMPLETED)
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as beside:
        beside.execute("DROP TABLE notices")
    with pytest.raises(LedgerError, match=r"ledger\.db could not be used: no such table: notices"):
        ledger.copy_to(open_ledger(target, create=True))
    assert open_ledger(target).campaigns() == ()


WRITES: dict[str, Callable[[Ledger], object]] = {
    "pass": lambda ledger: ledger.acquire("heat"),
    "break": lambda ledger: ledger.acquire("heat", break_lease=True),
    "create": lambda ledger: ledger.create_campaign("new", SPEC, digest_of(SPEC), {}, "ana"),
    "approve": lambda ledger: approve(ledger, ledger.trials("heat")[0]),
    "note": lambda ledger: ledger.note("heat", 0, "train", {}, None),
    "mend": lambda ledger: ledger.mend("heat", "ana", "why", {}),
    "give": lambda ledger: ledger.give("heat", ["heat-0001"], ["heat-0001"]),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_sealed_ledger_takes_no_write_says_where_its_campaigns_went_and_can_still_be_read(ledger, write):
    trial_in(ledger, S.PROPOSED)
    seal(ledger)
    before = everything(ledger)
    with pytest.raises(Sealed, match=r"moved to /elsewhere by ana: nothing is run .* move --undo"):
        WRITES[write](ledger)
    assert everything(ledger) == before
    assert ledger.sealed() == "/elsewhere"
    assert ledger.check() == []
    ledger.unseal("ben", "the copy never arrived")
    WRITES[write](ledger)
    events = [(e.action, e.by, e.reason, e.details) for e in ledger.history("heat") if "seal" in e.action]
    assert events == [
        ("seal", "ana", "a larger machine", {"to": "/elsewhere"}),
        ("unseal", "ben", "the copy never arrived", {"to": "/elsewhere"}),
    ]


@pytest.mark.parametrize("who", ["trainer", "exporter"])
def test_a_sealed_ledger_takes_no_write_under_a_lease_that_was_held_when_it_was_sealed(ledger, who):
    trial_in(ledger, S.PROPOSED)
    mine = ledger.acquire_trainer("heat") if who == "trainer" else ledger.acquire_exporter()
    seal(ledger)
    before, writing = everything(ledger), ledger.fenced(mine)
    with pytest.raises(Sealed, match="moved to /elsewhere"):
        writing.note("heat", 0, "train", {}, None) if who == "trainer" else writing.exported(1, "run")
    assert everything(ledger) == before
    ledger.release(mine)


def test_a_ledger_is_sealed_only_under_the_leases_of_all_its_campaigns(ledger):
    with pytest.raises(InvalidRecord, match="no campaign, so there is nothing to move"):
        ledger.seal("/elsewhere", [], "ana", "")
    begin(ledger)
    lease = ledger.acquire("heat")
    begin(ledger, "other")
    with pytest.raises(InvalidRecord, match="other was created meanwhile"):
        ledger.seal("/elsewhere", [lease], "ana", "")
    taken = ledger.acquire("heat", break_lease=True)
    with pytest.raises(LeaseLost, match="no longer holds the lease"):
        ledger.seal("/elsewhere", [lease, ledger.acquire("other")], "ana", "")
    assert ledger.sealed() is None
    ledger.release(taken)


def test_a_copy_that_takes_over_is_open_free_and_shows_everything_again(ledger, tmp_path):
    trial_in(ledger, S.COMPLETED)
    for item in ledger.pending():
        ledger.exported(item.id, "run")
    shown, lease = ledger.tracked("heat"), ledger.acquire("heat")
    ledger.seal("/elsewhere", [lease], "ana", "")
    ledger.copy_to(open_ledger(tmp_path / "copy.sqlite", create=True))
    copy = open_ledger(tmp_path / "copy.sqlite")
    with pytest.raises(Sealed, match="/elsewhere"):
        copy.acquire("heat")
    copy.take_over("ben", "restored", {"host": "old"})
    assert copy.sealed() is None
    assert shown
    assert copy.tracked("heat") == {}
    assert len(copy.pending()) == 2
    mine = copy.acquire("heat")
    assert mine.token > lease.token + 1, "no token that was given there is given here"
    with pytest.raises(LeaseLost, match="no longer holds"):
        copy.fenced(lease).note("heat", 0, "train", {}, None)
    with pytest.raises(LeaseHeld, match="is being worked on"):
        copy.acquire("heat")
    last = copy.history("heat")[-1]
    assert (last.action, last.by, last.reason, last.details) == ("restore", "ben", "restored", {"host": "old"})
