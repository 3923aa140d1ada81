"""The ledger's SQLite file: what is opened, what is refused, and that result leaves no trace."""

import hashlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledgers import S, correct, require_same_in_brief, trial_in

from fieldcraft.storage.ledger import (
    ForbiddenMove,
    InvalidRecord,
    LedgerBusy,
    LedgerError,
    NetworkFileSystem,
    NewerSchema,
    NoLedger,
    NotALedger,
    UnknownCampaign,
    UnreadableRow,
)
from fieldcraft.storage.ledgers import sqlite
from fieldcraft.storage.ledgers.sqlite import network_file_system
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, TrialState, digest_of

COUNTED = "(WITH RECURSIVE up (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM up LIMIT 1300) SELECT value FROM up)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger at rest with one campaign and one completed trial."""
    path = tmp_path / "runs" / "ledger.db"
    ledger = open_ledger(path, create=True)
    ledger.create_campaign("heat", {"seed": 1}, digest_of({"seed": 1}), {}, "test")
    origin = Origin(kind="initial", algorithm="sobol", iteration=0, slot=0)
    trial = ledger.propose("heat", 0, [Proposal(design={"x": 0.5}, origin=origin)], "test")[0]
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "automatic", 1)
    trial = ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "")
    trial = ledger.move(trial.id, TrialState.RUNNING, trial.expect, "test", "")
    ledger.record(trial.id, trial.expect, {"y": 1.5}, None, "test", "local", {})
    sqlite.close_idle()
    return path


def change(path: Path, statement: str) -> None:
    """Change the file behind the ledger's back."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(statement)
    connection.close()


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*.*")}


def test_a_ledger_at_rest_is_one_file_and_reading_it_changes_nothing(path):
    before = contents(path.parent)
    assert list(before) == ["ledger.db"]
    ledger = open_ledger(path)
    assert [trial.outputs for trial in ledger.trials("heat")] == [{"y": 1.5}]
    assert ledger.check() == []
    sqlite.close_idle()
    assert contents(path.parent) == before


def test_nothing_runs_under_a_specification_changed_behind_the_ledgers_back(path):
    ledger = open_ledger(path)
    origin = Origin(kind="initial", algorithm="sobol", iteration=1, slot=0)
    (trial,) = ledger.propose("heat", 1, [Proposal(design={"x": 0.25}, origin=origin)], "test")
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "manual", 1)
    sqlite.close_idle()
    change(path, """UPDATE campaigns SET spec = '{"seed": 2}'""")
    with pytest.raises(ForbiddenMove, match=f"approval names the digest {trial.digest} .* would run"):
        ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "")


def test_numbers_and_texts_that_the_database_cannot_take_are_refused(path):
    ledger = open_ledger(path)
    with pytest.raises(InvalidRecord, match=r"A number cannot be in a ledger .*Nothing was changed"):
        ledger.trials("heat", iteration=10**20)
    with pytest.raises(InvalidRecord, match=r"The text 'heat-\\ud800' cannot be in a ledger"):
        ledger.trial("heat-\ud800")
    with pytest.raises(InvalidRecord, match=r"The text '\\udc80' cannot be in a ledger"):
        ledger.finish("heat", "\udc80", "test")
    assert ledger.campaign("heat").finished is None


def test_a_ledger_opens_by_path_by_text_and_by_url(path, monkeypatch):
    monkeypatch.chdir(path.parent.parent)
    for place in (path, str(path), f"sqlite:///{path}", "sqlite:///runs/ledger.db", "runs/ledger.db"):
        assert [campaign.name for campaign in open_ledger(place).campaigns()] == ["heat"]
    with pytest.raises(LedgerError, match="the scheme 'mysql' is unknown"):
        open_ledger("mysql://host/name")


def test_opening_a_ledger_that_is_not_there_creates_nothing(tmp_path):
    with pytest.raises(NoLedger, match=r"There is no ledger at .*ledger\.db"):
        open_ledger(tmp_path / "runs" / "ledger.db")
    assert list(tmp_path.iterdir()) == []
    empty = tmp_path / "ledger.db"
    empty.touch()
    with pytest.raises(NoLedger, match="is empty"):
        open_ledger(empty)
    assert contents(tmp_path) == {"ledger.db": hashlib.sha256(b"").hexdigest()}


@pytest.mark.parametrize("create", [False, True])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path, create):
    text = tmp_path / "notes.txt"
    text.write_text("This is the laboratory's notebook, not a database.")
    other = tmp_path / "other.db"
    change(other, "CREATE TABLE measurements (a)")
    alike = tmp_path / "alike.db"
    change(alike, "CREATE TABLE store AS SELECT 'cookbook' AS format, 1 AS schema_version, 0.0 AS created")
    before = contents(tmp_path)
    with pytest.raises(NotALedger, match=r"notes.txt is not a ledger, or is damaged: file is not a database"):
        open_ledger(text, create=create)
    with pytest.raises(NotALedger, match="not a ledger of fieldcraft"):
        open_ledger(other, create=create)
    with pytest.raises(NotALedger, match="a store of 'cookbook'"):
        open_ledger(alike, create=create)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("create", [False, True])
def test_a_ledger_of_a_newer_schema_is_refused_and_left_alone(path, create):
    change(path, "UPDATE store SET schema_version = 3")
    before = contents(path.parent)
    with pytest.raises(NewerSchema, match=r"schema version 3; this fieldcraft knows versions up to 2\. Nothing was"):
        open_ledger(path, create=create)
    assert contents(path.parent) == before


@pytest.mark.parametrize("version", [0, -48])
def test_a_ledger_of_a_schema_that_never_was_is_damaged_and_left_alone(path, version):
    change(path, f"UPDATE store SET schema_version = {version}")
    before = contents(path.parent)
    with pytest.raises(NotALedger, match=rf"schema version is {version}, which there never was: it is damaged"):
        open_ledger(path)
    assert contents(path.parent) == before


def test_opening_a_ledger_again_keeps_the_locks_that_stop_another_process_from_folding_the_log_away(path):
    ledger = open_ledger(path)
    ledger.campaigns()  # its connection stays open, and holds a shared lock
    open_ledger(path).campaigns()
    visit = f"from fieldcraft.storage.open_ledger import open_ledger; open_ledger({str(path)!r}).campaigns()"
    subprocess.run([sys.executable, "-c", visit], check=True, cwd=Path(__file__).resolve().parents[3])
    assert path.with_name(f"{path.name}-wal").exists()
    assert ledger.check() == []


def test_a_ledger_put_in_the_place_of_another_is_the_one_that_is_opened(path, tmp_path):
    other = tmp_path / "other.db"
    open_ledger(other, create=True)
    sqlite.close_idle()  # folds the log into the file
    before = open_ledger(path)
    assert [campaign.name for campaign in before.campaigns()] == ["heat"]  # its connection stays open
    os.replace(other, path)
    assert open_ledger(path).campaigns() == ()
    assert [campaign.name for campaign in before.campaigns()] == ["heat"], "whoever has the old one open reads that"


def test_a_campaign_is_not_taken_to_be_in_a_ledger_that_was_written_over_the_one_that_had_it(path, tmp_path):
    ledger = open_ledger(path)
    assert len(ledger.trials("heat")) == 1
    other = tmp_path / "other.db"
    open_ledger(other, create=True).create_campaign("cold", {"seed": 2}, digest_of({"seed": 2}), {}, "test")
    sqlite.close_idle()
    shutil.copyfile(other, path)  # into the same file, so that no new engine is made for it
    with pytest.raises(UnknownCampaign, match=r"no campaign 'heat'\. Known: cold"):
        ledger.trials("heat")
    assert ledger.trials("cold") == ()


@pytest.mark.parametrize("more", [0, 1])
def test_what_was_read_of_a_ledger_is_not_taken_for_what_one_written_over_it_says(path, tmp_path, more):
    ledger = open_ledger(path)
    for _ in range(3):
        ledger.mend("heat", "test", "for more events than the other has", {})
    require_same_in_brief(ledger, "heat")
    other = open_ledger(tmp_path / "other.db", create=True)
    trial_in(other, S.COMPLETED)
    correct(other, other.trial("heat-0001"), 7.5)
    for _ in range(len(ledger.history("heat")) + more - len(other.history("heat"))):
        other.mend("heat", "test", "for as many events as the first has, or more", {})
    assert len(other.history("heat")) == len(ledger.history("heat")) + more
    sqlite.close_idle()
    shutil.copyfile(tmp_path / "other.db", path)
    assert ledger.summaries("heat")[0].outputs == {"y": 7.5}
    require_same_in_brief(ledger, "heat")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder should be")
    with pytest.raises(LedgerError, match=r"The folder .*runs cannot be made"):
        open_ledger(tmp_path / "runs" / "ledger.db", create=True)


def test_a_folder_or_a_closed_file_in_the_place_of_a_ledger_is_named(tmp_path, of_another):
    with pytest.raises(LedgerError, match=r"unable to open database file. Check that it is a file"):
        open_ledger(tmp_path)
    of_another.chmod(0o000)

    def read() -> None:
        with pytest.raises(LedgerError, match=r"unable to open database file. Check that it is a file"):
            open_ledger(of_another)

    assert unprivileged(read) == 0


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
//nas/lab /mnt/lab\\040data cifs rw 0 0
//nas/mesures /mnt/données cifs rw 0 0
me@host: /mnt/host fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/runs/ledger.db", None),
        ("/home/me/runs/ledger.db", "nfs4"),
        ("/home/local/runs/ledger.db", None),
        ("/homestead/ledger.db", None),
        ("/mnt/lab data/ledger.db", "cifs"),
        ("/mnt/données/ledger.db", "cifs"),
        ("/mnt/host/ledger.db", "fuse.sshfs"),
    ],
)
def test_a_network_file_system_is_recognised_by_the_innermost_mount(path, kind):
    assert network_file_system(Path(path), MOUNTS) == kind


def test_a_ledger_on_a_network_file_system_is_refused_and_nothing_created(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_mounts", lambda: f"server:/x {tmp_path} nfs rw 0 0\n")
    with pytest.raises(NetworkFileSystem, match=r"network file system \(nfs\).*local disk"):
        open_ledger(tmp_path / "runs" / "ledger.db", create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_locked_for_too_long_says_so(path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    ledger = open_ledger(path)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="was locked by another process"):
            ledger.finish("heat", "", "test")
        assert ledger.campaign("heat").finished is None  # a reader is not held up by a writer
        other.execute("ROLLBACK")
    other.close()


def test_a_ledger_is_made_though_another_process_is_making_it(tmp_path):
    making = tmp_path / "ledger.sqlite"
    other = sqlite3.connect(making, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # as the switch to WAL does: SQLite tells a second one "locked", and does not wait
    release = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    release.start()
    assert list(open_ledger(making, create=True).campaigns()) == []
    release.join()
    other.close()


@pytest.fixture
def of_another(path: Path) -> Iterator[Path]:
    """A copy of the ledger in a folder that a process without rights can read and cannot write."""
    folder = Path(tempfile.mkdtemp())  # tmp_path lies in a folder closed to other users
    copy = Path(shutil.copy(path, folder))
    copy.chmod(0o444)
    folder.chmod(0o555)
    yield copy
    folder.chmod(0o755)
    shutil.rmtree(folder)


def in_child(action: Callable[[], object]) -> int:
    """Run ``action`` in a forked child; 0, or 1 for an exception."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def unprivileged(action: Callable[[], object]) -> int:
    """Run ``action`` in a forked child that is no longer root, if it was."""

    def act() -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        action()

    return in_child(act)


def test_a_disk_that_is_full_is_named_and_what_was_written_before_is_kept(path):
    ledger = open_ledger(path)
    before = ledger.history("heat")
    with ledger._engine.connect().execution_options(outside=True) as connection:  # the one that the pool keeps
        connection.exec_driver_sql("PRAGMA max_page_count=1")  # SQLite raises it to the size that the file has
    with pytest.raises(LedgerError, match=r"database or disk is full\. The disk is full: free some space and repeat"):
        ledger.finish("heat", "x" * 100_000, "test")
    assert ledger.history("heat") == before
    sqlite.close_idle()  # a new connection knows no such limit
    assert ledger.finish("heat", "done", "test").finished == "done"
    assert ledger.check() == []


def test_a_disk_that_takes_no_more_bytes_is_named_and_the_next_process_goes_on(path):
    def write() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, -1))
        with pytest.raises(LedgerError, match=r"disk I/O error\. The disk reports an error: check it, and repeat"):
            open_ledger(path).finish("heat", "x" * 200_000, "test")

    assert in_child(write) == 0
    ledger = open_ledger(path)
    assert ledger.campaign("heat").finished is None
    assert ledger.finish("heat", "done", "test").finished == "done"
    assert ledger.check() == []


def test_one_who_may_only_read_reads_and_is_told_so_when_writing(of_another):
    def read_then_write() -> None:
        ledger = open_ledger(of_another)
        assert ledger.trial("heat-0001").outputs == {"y": 1.5}
        with pytest.raises(LedgerError, match=r"readonly database.*You may only read it"):
            ledger.finish("heat", "", "test")

    before = contents(of_another.parent)
    assert unprivileged(read_then_write) == 0
    assert contents(of_another.parent) == before


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("""UPDATE campaigns SET spec = '{"seed": 2}'""", "specification of campaign heat does not have the digest"),
        ("UPDATE campaigns SET spec = 'torn'", "Row heat of campaigns cannot be read: spec: Expecting value"),
        ("""UPDATE trials SET design = '{"x": 0.6}'""", "design of trial heat-0001 does not have the digest"),
        ("UPDATE trials SET state = 'HELD'", "is HELD at version 5, but its last event left it"),
        ("UPDATE trials SET version = 6", "is COMPLETED at version 6, but its last event left it"),
        ("UPDATE trials SET attempt = 2", "counts 2 attempts, but was staged 1 times"),
        ("UPDATE trials SET revision = 2", "is at revision 2, but was edited 0 times"),
        ("UPDATE trials SET spent = 2.0", r"has spent 2.0 in 0.0 s, but its attempts came to 1.0 in 0.0 s"),
        ("UPDATE trials SET seconds = 2.0", r"has spent 1.0 in 2.0 s, but its attempts came to 1.0 in 0.0 s"),
        ("""UPDATE trials SET ran = '{"x": 0.6}'""", "but its accepted results"),
        ("""UPDATE trials SET outputs = '{"y": 2.0}'""", "but its accepted results"),
        ("UPDATE trials SET state = 'LOST'", "Row heat-0001 of trials cannot be read: state = 'LOST'"),
        ("UPDATE trials SET number = 2", "trials of heat are not numbered from 1 on without a gap"),
        ("""UPDATE trials SET handle = '{"key": "k"}'""", "has the handle {'key': 'k'} and the failure None"),
        ("UPDATE trials SET origin = json_set(origin, '$.seed', 9)", "heat-0001 is not what was put down for tracking"),
        ("UPDATE approvals SET digest = hex(zeroblob(32))", "is for the digest 00000000"),
        ("UPDATE approvals SET revision = 2", "(revision 2), but "),
        ("UPDATE approvals SET attempts = 9", "Approval 1 of trial heat-0001 is not what event 3 says of it"),
        ("UPDATE approvals SET voided = 'no'", "Trial heat-0001 is COMPLETED, and 0 approvals of it hold"),
        ("DELETE FROM approvals", "Event 3 approves trial heat-0001, but that approval is gone"),
        (
            "INSERT INTO approvals SELECT 2, trial, revision, digest, by, comment, policy, attempts, version, expires,"
            " created, 'no' FROM approvals",
            "Approval 2 of trial heat-0001 is not in its history",
        ),
        (
            "UPDATE events SET details = json_set(details, '$.attempts', 0) WHERE action = 'approve'",
            "Event 4 sends trial heat-0001, but no approval covers that",
        ),
        ("UPDATE campaigns SET finished = 'budget'", "Campaign heat has ended by 'budget', but its history says []"),
        ("UPDATE outbox SET payload = '{}' WHERE kind = 'campaign'", "put down for tracking of heat (campaign heat)"),
        ("""UPDATE results SET outputs = '{"y": 2.0}'""", "Result 1 of trial heat-0001 does not have the digest"),
        ("UPDATE results SET verdict = 'superseded'", "but its accepted results"),
        ("UPDATE results SET replaces = 1", "corrections of trial heat-0001 do not each replace the one before"),
        ("""UPDATE results SET ran = '{"x": 0.6}'""", "Result 1 of trial heat-0001 does not have the digest"),
        ("UPDATE results SET verdict = 'partial'", "results of trial heat-0001 are [(1, 'partial', "),
        ("DELETE FROM events WHERE action = 'create'", "rows of events are numbered from 2 to 6, but there are 5"),
        ("DELETE FROM events WHERE action = 'propose'", "does not begin with its proposal"),
        ("DELETE FROM events WHERE after = 'STAGED'", "starts from STAGED, but it was APPROVED then"),
        ("UPDATE events SET version = 9 WHERE after = 'STAGED'", "jumps from version 2 to 9"),
        ("UPDATE events SET details = 'torn'", "Row 6 of events (heat-0001) cannot be read: details: Expecting value"),
        ("UPDATE events SET details = '[]' WHERE action = 'approve'", "Row 3 of events (heat-0001) cannot be read"),
        ("UPDATE events SET details = '{\"spent\": \"a\"}' WHERE after = 'STAGED'", "do not hold what they should"),
        ("UPDATE events SET reason = CAST(X'6180' AS TEXT) WHERE id = 4", "Row 4 of events (heat-0001) cannot be read"),
        ("UPDATE outbox SET payload = CAST(X'6180' AS TEXT) WHERE id = 2", "Row 2 of outbox cannot be read: payload"),
        ("INSERT INTO leases VALUES ('heat', 1, 'vm', 'x', 1.0, 1.0)", "Row heat of leases cannot be read: pid"),
        ("DELETE FROM trials", "A row of results refers to a row of trials that is missing"),
    ],
)
def test_the_check_finds_what_does_not_agree(path, statement, said):
    assert open_ledger(path).check() == []
    change(path, statement)
    assert any(said in problem for problem in open_ledger(path).check())


def test_of_many_rows_those_that_cannot_be_read_are_named_and_the_others_are_read(path):
    rows = f"SELECT value, 'heat', 'campaign ended', 'k' || value, '{{}}', 1.0, NULL, 0 FROM {COUNTED}"
    change(path, f"INSERT INTO notices {rows}")
    assert open_ledger(path).check() == []
    change(path, "UPDATE notices SET payload = '{' WHERE id IN (1, 703, 1300)")
    assert [text.partition(" cannot")[0] for text in open_ledger(path).check()] == [
        "Row 1 of notices",
        "Row 703 of notices",
        "Row 1300 of notices",
    ]
    change(path, "UPDATE notices SET payload = '{' WHERE id % 2 = 0")
    found = open_ledger(path).check()
    assert len(found) == 11 and found[-1] == "642 more rows of notices cannot be read."


def test_whoever_meets_a_row_that_cannot_be_read_is_told_which_and_nothing_is_changed(path):
    ledger = open_ledger(path)
    trial = ledger.trial("heat-0001")
    change(path, "UPDATE events SET by = CAST(X'61ff' AS TEXT) WHERE id = 2")
    change(path, "UPDATE results SET outputs = '{\"y\": ' WHERE id = 1")
    told = r"ledger\.db was altered or damaged\. Row 2 of events \(heat-0001\) cannot be read: by: .* Nor can 1 more\."
    sqlite.close_idle()
    before = contents(path.parent)
    for read in (
        lambda: ledger.history("heat"),
        lambda: ledger.results("heat-0001"),
        lambda: ledger.campaign_results("heat"),
        lambda: ledger.result_summaries("heat"),
    ):
        with pytest.raises(UnreadableRow, match=told):
            read()
    with pytest.raises(UnreadableRow, match=told):
        ledger.correct(trial.id, trial.expect, 1, {"y": 2.0}, None, "test", "why", {})
    assert ledger.trial("heat-0001") == trial and ledger.spending("heat").trials == 1
    sqlite.close_idle()
    assert contents(path.parent) == before


@pytest.mark.parametrize("after", [" {}", "}", ", 1", "\0"])
def test_text_after_the_end_of_a_value_is_met_in_brief_too(path, after):
    ledger = open_ledger(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE trials SET outputs = outputs || ? WHERE id = 'heat-0001'", (after,))
        connection.execute("UPDATE results SET outputs = outputs || ? WHERE id = 1", (after,))
    for read in (ledger.summaries, ledger.result_summaries):
        with pytest.raises(UnreadableRow, match="heat-0001 of trials cannot be read: outputs: "):
            read("heat")


def test_a_file_whose_own_description_was_altered_is_no_ledger(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"CREATE TABLE trials") + 14] = 0xFF
    path.write_bytes(content)
    with pytest.raises(NotALedger, match="is not a ledger, or is damaged"):
        open_ledger(path).campaigns()


def test_the_check_finds_a_damaged_page(path):
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(NotALedger, match=r"is not a ledger, or is damaged: .*malformed"):
        open_ledger(path).check()


def test_a_design_changed_behind_the_ledgers_back_never_runs(path):
    ledger = open_ledger(path)
    origin = Origin(kind="initial", algorithm="sobol", iteration=1, slot=0)
    trial = ledger.propose("heat", 1, [Proposal(design={"x": 0.5}, origin=origin)], "test")[0]
    trial = ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "manual", 1)
    change(path, """UPDATE trials SET design = '{"x": 99.0}' WHERE id = 'heat-0002'""")
    with pytest.raises(LedgerError, match="its approval names the digest"):
        ledger.move(trial.id, TrialState.STAGED, trial.expect, "test", "")


def test_a_forked_child_inherits_no_open_connection(path):
    ledger = open_ledger(path)
    assert ledger.campaign("heat").finished is None
    assert ledger._engine.pool.checkedin() == 1
    pid = os.fork()
    if pid == 0:
        os._exit(ledger._engine.pool.checkedin())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ledger.campaign("heat").finished is None


def test_importing_the_contract_imports_no_database():
    loaded = "any(name in sys.modules for name in ('sqlalchemy', 'sqlite3'))"
    code = f"import sys, fieldcraft.storage.ledger; sys.exit({loaded})"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env=os.environ | {"PYTHONPATH": "."}).returncode == 0
    )


def test_every_commit_reaches_the_disk_and_foreign_keys_hold(path):
    with open_ledger(path)._engine.connect() as connection:
        settings = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert settings == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_ledger_that_a_newer_version_upgraded_while_this_process_had_it_open_is_refused(tmp_path):
    kept = open_ledger(tmp_path / "ledger.db", create=True)
    assert open_ledger(tmp_path / "ledger.db").campaigns() == ()
    with kept._transaction("create") as connection:
        connection.exec_driver_sql("UPDATE store SET schema_version = 99")
    with pytest.raises(NewerSchema, match="schema version 99"):
        open_ledger(tmp_path / "ledger.db")
