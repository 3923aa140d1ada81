"""A real ledger of schema 1 becomes one of schema 2: whole or not at all, everything reads as before, work goes on.

``assets/ledger-v1.sqlite`` was written by the code of schema 1: campaign ``small`` was run to its end (3 trials),
campaign ``heat`` has one trial in each state.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Connection, text

from fieldcraft.storage.ledger import BudgetSpent, Ledger, NotALedger, OldSchema
from fieldcraft.storage.ledgers import opening
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.upgrades import STEPS
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, Origin, Proposal, Trial, TrialState

ASSET = Path(__file__).parents[1] / "assets" / "ledger-v1.sqlite"
S = TrialState


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(ASSET, tmp_path / "ledger.db"))


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table, read beside the ledger."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        found = [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")]
    connection.close()
    return found


def change(path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def in_child(action: Callable[[], object], **environment: str) -> int:
    """Run ``action`` in a forked child; 0, 1 for an exception, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ.update(environment)
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def by_state(ledger: Ledger) -> dict[TrialState, Trial]:
    return {trial.state: trial for trial in ledger.trials("heat")}


def test_what_schema_1_held_reads_as_before_and_the_check_finds_nothing(path):
    tables = ("campaigns", "trials", "events", "results", "approvals", "products", "leases")
    before = {table: rows(path, table) for table in tables}
    ledger = open_ledger(path)
    assert ledger.check() == []
    assert {trial.state for trial in ledger.trials("heat")} == set(TrialState)
    assert [trial.state for trial in ledger.trials("small")] == [S.COMPLETED] * 3
    close_idle()
    for table in tables:
        kept = [{name: row[name] for name in before[table][0]} for row in rows(path, table)]
        assert kept[: len(before[table])] == before[table]
        assert all(row["action"] == "upgrade" for row in kept[len(before[table]) :])


def test_an_upgraded_file_has_the_tables_and_columns_of_a_new_one(path, tmp_path):
    open_ledger(path)
    open_ledger(tmp_path / "new.db", create=True)
    close_idle()

    def columns(file: Path) -> dict[str, set[tuple[str, int]]]:
        with sqlite3.connect(file) as connection:
            found = {
                table.name: {(row[1], row[3]) for row in connection.execute(f"PRAGMA table_info({table.name})")}
                for table in schema.metadata.sorted_tables
            }
        connection.close()
        return found

    assert columns(path) == columns(tmp_path / "new.db")
    assert rows(path, "store")[0]["schema_version"] == schema.SCHEMA_VERSION


def test_limits_and_spending_are_worked_out_from_what_was_done(path):
    ledger = open_ledger(path)
    assert ledger.campaign("small").limits.trials == 3
    assert ledger.campaign("heat").limits.trials is None
    assert [trial.seconds for trial in ledger.trials("small")] == [1.635, 1.264, 0.863]
    assert [trial.spent for trial in ledger.trials("small")] == [1.0, 1.0, 1.0]
    ended = {S.COMPLETED, S.FAILED, S.ABANDONED}
    assert {trial.state: trial.spent for trial in ledger.trials("heat")} == {s: float(s in ended) for s in TrialState}
    spending = ledger.spending("heat")
    assert (spending.trials, spending.spent, spending.reserved) == (6, 3.0, 3.0)
    assert {(t.priority, t.revision, t.ran, t.heard) for t in ledger.trials("heat")} == {(0, 1, None, None)}


def test_what_waits_in_the_outbox_can_still_be_exported(path):
    for item in open_ledger(path).pending():
        match item.kind:
            case "trial":
                trial = Trial.model_validate(item.payload)
                assert trial == open_ledger(path).trial(trial.id)
            case "campaign" | "finish":
                known = open_ledger(path).campaign(item.campaign)
                assert CampaignRecord.model_validate(item.payload).limits == known.limits


def test_work_goes_on_where_it_stood(path):
    ledger = open_ledger(path)
    trials = by_state(ledger)
    held = ledger.move(trials[S.HELD].id, S.APPROVED, trials[S.HELD].expect, "ann", "again")
    assert held.spent == 1.0
    ledger.move(held.id, S.STAGED, held.expect, "ann", "")
    staged = ledger.move(trials[S.APPROVED].id, S.STAGED, trials[S.APPROVED].expect, "ann", "")
    done, _ = ledger.record(*_of(trials[S.RUNNING]), {"y": 2.5}, None, "ann", "local", {}, seconds=3.0)
    assert (done.spent, done.seconds) == (1.0, 3.0)
    (result,) = ledger.results(trials[S.COMPLETED].id)
    ledger.correct(*_of(trials[S.COMPLETED]), result.id, {"y": 3.5}, None, "ann", "the gauge", {})
    design = {**trials[S.PROPOSED].design, "x": 0.9}
    edited = ledger.edit(*_of(trials[S.PROPOSED]), design, 1.0, "ann", "further out")
    ledger.approve(*_of(edited), edited.digest, "ann", "", "manual", 1, expires=2e9)
    assert ledger.prioritise(staged.id, 3, "ann", "").priority == 3
    lease = ledger.acquire("small")
    assert lease.token == 2
    ledger.release(lease)
    assert ledger.check() == []


def _of(trial: Trial) -> tuple[str, tuple[TrialState, int]]:
    return trial.id, trial.expect


def test_the_limit_of_an_upgraded_campaign_holds(path):
    ledger = open_ledger(path)
    origin = Origin(kind="model", algorithm="gp", iteration=9, slot=0)
    (trial,) = ledger.propose("small", 9, [Proposal(design={"x1": 0.0, "x2": 1.0}, origin=origin)], "ann")
    trial = ledger.approve(*_of(trial), trial.digest, "ann", "", "manual", 1)
    with pytest.raises(BudgetSpent, match="3 of the 3 trials of 'small' are spent"):
        ledger.move(*_moved(trial), "ann", "")


def _moved(trial: Trial) -> tuple[str, TrialState, tuple[TrialState, int]]:
    return trial.id, S.STAGED, trial.expect


def test_the_check_finds_what_was_changed_after_the_upgrade(path):
    open_ledger(path)
    close_idle()
    change(path, "UPDATE trials SET spent = 5 WHERE id = 'small-0001'")
    assert open_ledger(path).check() == [
        "Trial small-0001 has spent 5.0 in 1.635 s, but its attempts came to 1.0 in 1.635 s.",
        "Trial small-0001 is not what was put down for tracking when it came to be COMPLETED.",
    ]


def test_there_is_a_step_from_every_older_schema():
    assert list(STEPS) == list(range(1, schema.SCHEMA_VERSION))


@pytest.fixture
def longer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A chain with two more steps, the last of which refuses a ledger that holds ``small``; what they saw."""
    seen: list[str] = []

    def third(connection: Connection) -> None:
        seen.extend(connection.execute(text("SELECT limits FROM campaigns ORDER BY name")).scalars())
        connection.execute(text("ALTER TABLE campaigns ADD COLUMN owner TEXT DEFAULT 'ann'"))

    def fourth(connection: Connection) -> None:
        seen.extend(connection.execute(text("SELECT owner FROM campaigns")).scalars())
        if "small" in connection.execute(text("SELECT name FROM campaigns WHERE owner = 'ann'")).scalars().all():
            raise ValueError("the fourth step cannot be made")

    monkeypatch.setattr(schema, "SCHEMA_VERSION", 4)
    monkeypatch.setattr(opening, "STEPS", {**STEPS, 2: third, 3: fourth})
    return seen


@pytest.mark.parametrize("start", [1, 2])
def test_a_ledger_goes_through_the_steps_from_its_own_schema_on_in_order(path, start, monkeypatch, longer):
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "SCHEMA_VERSION", start)
        open_ledger(path)
    close_idle()
    change(path, "UPDATE campaigns SET name = 'large' WHERE name = 'small'")
    assert rows(path, "store")[0]["schema_version"] == start
    open_ledger(path)
    close_idle()
    assert rows(path, "store")[0]["schema_version"] == 4
    assert [json.loads(limits)["trials"] for limits in longer[:2]] == [None, 3] and longer[2:] == ["ann", "ann"]
    assert [row["details"].count("from") for row in rows(path, "events") if row["action"] == "upgrade"] == [1, 1]


def test_a_step_that_fails_takes_those_before_it_back(path, longer):
    before = rows(path, "campaigns")
    with pytest.raises(NotALedger, match="the fourth step cannot be made"):
        open_ledger(path)
    close_idle()
    assert rows(path, "campaigns") == before and longer[2:] == ["ann", "ann"]
    assert rows(path, "store")[0]["schema_version"] == 1


@pytest.mark.parametrize(("when", "version"), [("before", 1), ("after", 2)])
def test_an_upgrade_that_was_killed_is_whole_or_not_there_and_is_made_again(path, when, version, tmp_path):
    death = {"FIELDCRAFT_DIE_AT": f"ledger.upgrade.{when}#1"}
    assert in_child(lambda: open_ledger(path), **death) == -signal.SIGKILL
    assert rows(path, "store")[0]["schema_version"] == version
    ledger = open_ledger(path)
    assert ledger.check() == []
    upgrades = [event.details["to"] for event in ledger.history("small") if event.action == "upgrade"]
    assert upgrades == [2]


def test_of_eight_that_open_an_old_ledger_at_once_one_upgrades_it(path):
    children = []
    for _ in range(8):
        if (pid := os.fork()) == 0:
            code = 1
            try:
                code = len(open_ledger(path).check())
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 8
    assert [event.action for event in open_ledger(path).history("heat")].count("upgrade") == 1


def test_an_old_ledger_is_left_alone_while_a_live_process_holds_a_lease(path):
    me = psutil.Process()
    started = me.create_time() - psutil.boot_time()
    held = "UPDATE leases SET host = ?, pid = ?, started = ?, acquired = 1.0 WHERE campaign = 'small'"
    change(path, held, socket.gethostname(), me.pid, started)
    before = path.read_bytes()
    with pytest.raises(OldSchema, match=rf"schema 1 and must be upgraded, but pid {me.pid} on host .* is at work on"):
        open_ledger(path)
    close_idle()
    assert path.read_bytes() == before
    change(path, held, socket.gethostname(), me.pid, started - 100.0)  # an earlier process of that pid: it is gone
    assert open_ledger(path).acquire("small").token == 2


def test_a_notebook_that_only_waits_for_results_holds_no_upgrade_up(path):
    me = psutil.Process()
    waits = "INSERT INTO leases VALUES (':asked:0123456789abcdef:0001', 1, ?, ?, ?, 1.0)"
    change(path, waits, socket.gethostname(), me.pid, me.create_time() - psutil.boot_time())
    assert open_ledger(path).acquire("small").token == 2


def test_who_asks_for_no_upgrade_is_told_what_makes_one_and_changes_nothing(path):
    before = path.read_bytes()
    with pytest.raises(OldSchema, match=r"has schema version 1 .* upgrades it; back it up first\. Nothing was changed"):
        open_ledger(path, upgrade=False)
    close_idle()
    assert path.read_bytes() == before
    open_ledger(path)
    assert open_ledger(path, upgrade=False).check() == []


def test_one_who_may_only_read_is_told_who_can_upgrade(path):
    folder = Path(tempfile.mkdtemp())  # tmp_path lies in a folder closed to other users
    copy = Path(shutil.copy(path, folder / "ledger.db"))
    copy.chmod(0o444)
    folder.chmod(0o555)

    def read() -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        with pytest.raises(OldSchema, match=r"has schema 1 and must be upgraded .* you may not write it"):
            open_ledger(copy)

    try:
        assert in_child(read) == 0
        assert copy.read_bytes() == ASSET.read_bytes()
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_the_asset_is_as_the_code_of_schema_1_left_it(path):
    assert json.loads(rows(path, "campaigns")[1]["spec"])["budget"] == {"trials": 3}
    assert rows(path, "store")[0]["schema_version"] == 1
