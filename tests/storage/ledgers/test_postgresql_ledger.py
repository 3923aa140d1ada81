"""The ledger on a PostgreSQL server: what is opened, what is refused, and what happens when the server goes away."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import schema_of, server, url_of
from sqlalchemy import MetaData, create_engine, insert, select

from fieldcraft.storage.ledger import (
    InvalidRecord,
    Ledger,
    LedgerBusy,
    LedgerError,
    NewerSchema,
    NoLedger,
    NotALedger,
    OldSchema,
    OutcomeUnknown,
)
from fieldcraft.storage.ledgers import postgresql
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, Trial, TrialState, digest_of

ASSET = Path(__file__).parents[1] / "assets" / "ledger-v1.sqlite"
SPEC = {"seed": 1}


@pytest.fixture
def place(tmp_path: Path) -> str:
    """URL of a ledger with one campaign."""
    url = url_of(tmp_path)
    open_ledger(url, create=True).create_campaign("heat", SPEC, digest_of(SPEC), {}, "test")
    return url


@pytest.fixture
def ledger(place: str) -> Ledger:
    return open_ledger(place)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator["psycopg.Connection[tuple]"]:
    """A connection of the database's own administrator to the same tables."""
    with server().connect(schema_of(tmp_path)) as connection:
        yield connection


def propose(ledger: Ledger, iteration: int = 0, **design: Any) -> Trial:
    origin = Origin(kind="initial", algorithm="sobol", iteration=iteration, slot=0)
    return ledger.propose("heat", iteration, [Proposal(design=design or {"x": 0.5}, origin=origin)], "test")[0]


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


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        os.sched_yield()


def end_sessions(beside: "psycopg.Connection[tuple]") -> None:
    beside.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ann:hush@host", "The ledger's URL is none"),
        ("postgresql://ann:hush@host:port/db", "The ledger's URL is none"),
        ("postgresql://ann:hu@sh@host/db", "write them as %2F, %3F, %23 and %40"),
        ("postgresql://ann:hush/x@host/db", "write them as %2F, %3F, %23 and %40"),
        ("postgresql://host/db?password=hush", "has the option 'password', which would be shown"),
        ("mysql://ann:hush@host/db", "the scheme 'mysql' is unknown"),
        ("postgres://ann:hush@host/db", "the scheme 'postgres' is unknown"),
    ],
)
def test_a_url_that_is_none_is_refused_and_never_quoted(url, said):
    with pytest.raises(LedgerError, match=said) as caught:
        open_ledger(url)
    assert "hush" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sslmod=require", 'invalid connection option "sslmod"'),
        ("sslmode=banana", 'invalid sslmode value: "banana"'),
        ("port=abc", "non-integer port"),
        ("service=heat", 'definition of service "heat" not found'),
        ("options=-c%20nosuch%3D1", 'unrecognized configuration parameter "nosuch"'),
        ("options=-c%20work_mem%3Dmuch", 'invalid value for parameter "work_mem"'),
        ("options=search_path%3Dlab", "invalid command-line argument"),
    ],
)
def test_a_wrong_option_is_named_and_not_taken_for_a_dead_server(options, said):
    with pytest.raises(LedgerError, match=f"The options of the ledger .* are wrong: .*{said}.*Mend what follows") as no:
        open_ledger(f"{server().url()}&{options}", create=True)
    assert type(no.value) is LedgerError


def test_a_schema_that_is_not_there_is_told_to_be_made():
    with pytest.raises(LedgerError, match="Make the schema that search_path in its URL names"):
        open_ledger(server().url("nowhere"), create=True)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_keep_every_text_is_refused(encoding):
    name = f"in_{encoding.lower()}"
    with server().connect() as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(LedgerError, match=f"{name}.* keeps texts in {encoding}.*createdb -E UTF8 -T template0"):
        open_ledger(server().url(database=name), create=True)


def test_texts_are_read_as_they_were_written_whatever_the_url_sets(tmp_path):
    url, spec = f"{url_of(tmp_path)}&client_encoding=latin1", {"title": "Θ ≤ 5 K"}
    open_ledger(url, create=True).create_campaign("heat", spec, digest_of(spec), {}, "test")
    assert open_ledger(url).campaign("heat").spec == spec


def test_a_server_that_does_not_answer_is_named_without_the_password():
    with pytest.raises(LedgerBusy, match=r"server of the ledger postgresql://ann@127.0.0.1:1/db does not answer") as no:
        open_ledger("postgresql://ann:hush@127.0.0.1:1/db?sslmode=prefer", create=True)
    assert "hush" not in str(no.value) + repr(no.value.__cause__)
    assert "\n" not in str(no.value)


def test_a_password_is_used_and_told_nobody(place, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    role = f"guarded_{schema_of(tmp_path)}"
    rules = server().folder / "pg_hba.conf"
    before = rules.read_text()
    with server().connect() as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'hush'")
        admin.execute(f"GRANT ALL ON SCHEMA {schema_of(tmp_path)} TO {role}")
        admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema_of(tmp_path)} TO {role}")
        rules.write_text(f"local all {role} scram-sha-256\n{before}")
        admin.execute("SELECT pg_reload_conf()")
        try:
            with_password = place.replace("postgres@", f"{role}:hush@")
            ledger = open_ledger(with_password)
            ledger.finish("heat", "done", "test")
            with pytest.raises(
                LedgerError, match=r'password authentication failed .*"\. Check user, password'
            ) as caught:
                open_ledger(place.replace("postgres@", f"{role}:shush@"))
            with pytest.raises(LedgerError, match=r"no password supplied\. Check user, password"):
                open_ledger(place.replace("postgres@", f"{role}@"))
        finally:
            rules.write_text(before)
            admin.execute("SELECT pg_reload_conf()")
    told = [
        str(caught.value),
        repr(caught.value.__cause__),
        repr(ledger),
        repr(ledger._engine),
        repr(ledger._engine.url[:]),
        caplog.text,
    ]
    assert not [text for text in told if "hush" in text]


def test_what_is_missing_is_named_and_nothing_is_made(tmp_path, beside):
    with pytest.raises(NoLedger, match=r'database "nowhere" does not exist\. Check the name, or make .* createdb'):
        open_ledger(server().url(database="nowhere"), create=True)
    with pytest.raises(NoLedger, match=r"is empty, so there is no ledger"):
        open_ledger(url_of(tmp_path))
    assert beside.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone() == (0,)


def test_a_driver_that_is_missing_is_named():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import fieldcraft.storage.open_ledger as s\n"
        "try: s.open_ledger('postgresql://ann:hush@host/db')\n"
        "except s.LedgerError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "needs psycopg, which is not installed: pip install 'fieldcraft[postgresql]'" in done.stdout
    assert "hush" not in done.stdout


def test_a_database_that_is_something_elses_is_refused_and_left_alone(tmp_path, beside):
    beside.execute("CREATE TABLE runs (a int)")
    with pytest.raises(NotALedger, match=r"has tables, but is not a ledger of fieldcraft"):
        open_ledger(url_of(tmp_path), create=True)
    beside.execute("CREATE TABLE store AS SELECT 'cookbook' AS format, 2 AS schema_version, 0.0 AS created")
    with pytest.raises(NotALedger, match="a store of 'cookbook'"):
        open_ledger(url_of(tmp_path), create=True)
    assert beside.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone() == (2,)


def test_a_whole_number_that_sqlite_takes_is_taken_over_from_it(tmp_path):
    many, origin = 5_000_000_000, open_ledger(tmp_path / "ledger.sqlite", create=True)
    origin.create_campaign("heat", SPEC, digest_of(SPEC), {}, "test")
    trial = propose(origin, iteration=many)
    origin.approve(trial.id, trial.expect, trial.digest, "ana", "as often as it takes", "manual", many)
    origin.note("heat", many, "train", {"loss": 0.5}, None)
    place = url_of(tmp_path)
    origin.copy_to(open_ledger(place, create=True))
    taken = open_ledger(place)
    assert [approval.attempts for approval in taken.granted("heat")] == [many]
    assert taken.trials("heat") == origin.trials("heat")
    assert taken.iterations("heat", "train") == (many,)
    for item in taken.pending():
        taken.exported(item.id, f"run-{item.id}")
    assert set(taken.tracked("heat")) == {"campaign", f"surrogate:{many}"}
    assert taken.check() == []


def test_a_ledger_of_the_first_release_keeps_its_narrow_columns_and_says_what_does_not_fit(place, beside):
    beside.execute("ALTER TABLE approvals ALTER COLUMN attempts TYPE integer")
    beside.commit()
    ledger = open_ledger(place)
    trial = propose(ledger)
    with pytest.raises(InvalidRecord, match="integer out of range"):
        ledger.approve(trial.id, trial.expect, trial.digest, "ana", "", "manual", 5_000_000_000)
    approved = ledger.approve(trial.id, trial.expect, trial.digest, "ana", "", "manual", 2)
    assert (approved.state, ledger.check()) == (TrialState.APPROVED, [])


def test_a_ledger_of_another_schema_version_is_refused_and_left_alone(place, beside):
    beside.execute("UPDATE store SET schema_version = 99")
    with pytest.raises(NewerSchema, match=r"schema version 99; this fieldcraft knows versions up to"):
        open_ledger(place, create=True)
    beside.execute("UPDATE store SET schema_version = 1")
    with pytest.raises(OldSchema, match=r"has schema version 1 .* upgrades it; back it up first"):
        open_ledger(place, upgrade=False)
    assert beside.execute("SELECT schema_version FROM store").fetchone() == (1,)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_ledger_of_the_first_schema_is_upgraded_as_its_file_is(tmp_path, beside, when):
    copied_from(ASSET, tmp_path)
    url = url_of(tmp_path)
    assert in_child(lambda: open_ledger(url), FIELDCRAFT_DIE_AT=f"ledger.upgrade.{when}#1") == -signal.SIGKILL
    assert beside.execute("SELECT schema_version FROM store").fetchone() == ({"before": 1, "after": 2}[when],)
    file = tmp_path / "ledger.db"
    file.write_bytes(ASSET.read_bytes())
    upgraded, reference = open_ledger(url), open_ledger(file)
    assert upgraded.check() == []
    for name in ("heat", "small"):
        assert upgraded.campaign(name) == reference.campaign(name)
        assert upgraded.trials(name) == reference.trials(name)
        assert upgraded.campaign_results(name) == reference.campaign_results(name)
        assert upgraded.products(name) == reference.products(name)
        assert upgraded.spending(name) == reference.spending(name)
        told = [[e.model_dump(exclude={"created"}) for e in each.history(name)] for each in (upgraded, reference)]
        assert told[0] == told[1]
        assert [list(trial.design) for trial in upgraded.trials(name)] == [
            list(t.design) for t in reference.trials(name)
        ]
    assert [item.payload for item in upgraded.pending()] == [item.payload for item in reference.pending()]
    (held,) = upgraded.trials("heat", states={TrialState.HELD})
    upgraded.move(held.id, TrialState.APPROVED, held.expect, "ann", "again")
    assert upgraded.check() == []


def copied_from(file: Path, folder: Path) -> None:
    """Copy tables and rows of an SQLite ledger into the folder's schema."""
    tables, source, target = MetaData(), create_engine(f"sqlite:///{file}"), create_engine(_sqlalchemy(folder))
    tables.reflect(source)
    tables.create_all(target)
    with source.connect() as old, target.begin() as new:
        for table in tables.sorted_tables:
            rows = [dict(row) for row in old.execute(select(table)).mappings()]
            if rows and table.name != "sqlite_sequence":
                new.execute(insert(table), rows)
    source.dispose()
    target.dispose()


def _sqlalchemy(folder: Path) -> str:
    return url_of(folder).replace("postgresql://", "postgresql+psycopg://")


def test_texts_and_numbers_that_postgresql_cannot_store_are_refused_and_change_nothing(ledger):
    trial = propose(ledger)
    refused = (
        lambda: ledger.finish("heat", "a\0b", "test"),
        lambda: propose(ledger, 1, x="a\0b"),
        lambda: ledger.notify("heat", "approval waiting", "waits", {"a\0b": 1}),
        lambda: ledger.finish("heat", "\udc80", "test"),
        lambda: propose(ledger, 10**20),
        lambda: ledger.trial("heat\0"),
        lambda: ledger.notify("heat", "approval waiting", "w" * 300, {}),
        lambda: ledger.move(trial.id, TrialState.REJECTED, trial.expect, "test", "", handle={"job": object()}),
    )
    before = ledger.history("heat")
    for write in refused:
        with pytest.raises(InvalidRecord, match=r"cannot be in (a|the) ledger|cannot store|not JSON"):
            write()
    assert ledger.history("heat") == before


def test_what_only_looks_like_it_is_stored_and_keys_keep_their_order(ledger):
    design = {"z": "\\u0000", "b": "\\\\u0000 \x01 \u2028 \U0001f525", "a": 0.1}
    stored = ledger.trial(propose(ledger, **design).id)
    assert list(stored.design.items()) == list(design.items())


def test_a_writer_that_waits_for_too_long_says_so_and_a_reader_never_waits(place, monkeypatch, beside):
    monkeypatch.setattr(postgresql, "BUSY_SECONDS", 0.2)
    ledger = open_ledger(f"{place}&application_name=hasty")
    beside.execute("BEGIN")
    beside.execute("SELECT pg_advisory_xact_lock(%s)", (postgresql._WRITERS,))
    with pytest.raises(LedgerBusy, match=r"another process was writing for .* s\. Nothing was written; repeat"):
        ledger.finish("heat", "", "test")
    assert ledger.campaign("heat").finished is None
    beside.execute("ROLLBACK")
    assert ledger.finish("heat", "done", "test").finished == "done"


def test_a_process_stopped_in_mid_write_loses_its_session_so_that_the_others_go_on(place, monkeypatch, beside):
    monkeypatch.setattr(postgresql, "IDLE_SECONDS", 0.2)
    stopped, other = open_ledger(f"{place}&application_name=stopped"), open_ledger(place)
    mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stopped'"
    with (
        pytest.raises(LedgerBusy, match=r"left a write standing for .* s, so the server ended it|does not answer"),
        stopped._transaction("finish") as connection,
    ):
        connection.exec_driver_sql("UPDATE campaigns SET finished = 'torn'")
        until(lambda: beside.execute(mine).fetchone() == (0,))
        assert other.campaign("heat").finished is None
        propose(other)  # its turn came at once
        connection.exec_driver_sql("SELECT 1")
    assert stopped.campaign("heat").finished is None


def test_a_connection_that_breaks_in_mid_transaction_leaves_nothing_and_the_next_call_connects_again(ledger, beside):
    with (
        pytest.raises(LedgerBusy, match=r"does not answer: .*terminating connection.* Nothing was written"),
        ledger._transaction("finish") as connection,
    ):
        connection.exec_driver_sql("UPDATE campaigns SET finished = 'torn'")
        end_sessions(beside)
        connection.exec_driver_sql("SELECT 1")
    assert ledger.campaign("heat").finished is None
    end_sessions(beside)  # idle ones
    assert ledger.finish("heat", "done", "test").finished == "done"


def test_a_connection_that_breaks_while_a_write_is_committed_says_so_and_a_repeat_is_safe(ledger, beside):
    with (
        pytest.raises(OutcomeUnknown, match=r"not known whether it was stored\. Repeat it: what was stored is not"),
        ledger._transaction("finish") as connection,
    ):
        connection.exec_driver_sql("UPDATE campaigns SET finished = 'done'")
        end_sessions(beside)
    assert ledger.finish("heat", "done", "test").finished == "done"


def test_what_was_committed_outlives_a_crash_of_the_server_and_the_same_instance_goes_on(ledger):
    trial = propose(ledger)
    lease = ledger.acquire("heat")
    fenced = ledger.fenced(lease)
    server().crash()
    try:
        with pytest.raises(LedgerBusy, match=r"does not answer: .* Nothing was written; check that it runs"):
            fenced.finish("heat", "", "test")
        with pytest.raises(LedgerBusy, match="does not answer"):
            ledger.trials("heat")
    finally:
        server().start()
    assert ledger.trials("heat") == (trial,)
    assert ledger.holder("heat") == lease
    assert propose(fenced, 1).number == 2
    fenced.release(lease)
    assert ledger.check() == []


def test_a_damaged_page_is_found_by_the_check(ledger, tmp_path, beside):
    propose(ledger)
    (path,) = beside.execute("SELECT pg_relation_filepath('events')").fetchone()
    beside.execute("CHECKPOINT")
    server().crash()
    try:
        page = server().folder / path
        content = bytearray(page.read_bytes())
        content[4096:8100] = b"\x55" * 4004
        page.write_bytes(content)
    finally:
        server().start()
    assert any("is damaged" in problem and "Restore it" in problem for problem in ledger.check())


def test_a_server_that_may_lose_what_it_says_is_stored_is_named_by_the_check(ledger, beside):
    beside.execute("ALTER SYSTEM SET fsync = off")
    beside.execute("SELECT pg_reload_conf()")
    try:
        until(lambda: ledger.check() != [])
        (said,) = ledger.check()
        assert "has fsync off: a power cut may lose writes" in said
    finally:
        beside.execute("ALTER SYSTEM RESET fsync")
        beside.execute("SELECT pg_reload_conf()")
    until(lambda: ledger.check() == [])


def test_commits_are_durable_whatever_the_url_sets(place):
    ledger = open_ledger(f"{place}%20-c%20synchronous_commit%3Doff%20-c%20lock_timeout%3D0")
    with ledger._query() as connection:
        said = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in ("synchronous_commit", "lock_timeout")]
    assert said == ["on", "30s"]


def test_one_who_may_only_read_reads_and_is_told_so_when_writing(place, tmp_path, beside):
    role, schema = f"reader_{schema_of(tmp_path)}", schema_of(tmp_path)
    beside.execute(f"CREATE ROLE {role} LOGIN")
    beside.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    beside.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    ledger = open_ledger(place.replace("postgres@", f"{role}@"))
    assert [campaign.name for campaign in ledger.campaigns()] == ["heat"]
    with pytest.raises(LedgerError, match=r"permission denied for table campaigns\. This user may not do that: grant"):
        ledger.finish("heat", "", "test")


def test_all_that_one_read_tells_is_of_one_instant(ledger):
    with ledger._query() as connection:
        count = "SELECT count(*) FROM trials"
        before = connection.exec_driver_sql(count).scalar()
        propose(ledger)
        assert connection.exec_driver_sql(count).scalar() == before == 0
    assert len(ledger.trials("heat")) == 1


def test_a_forked_child_connects_for_itself_and_its_parent_goes_on(ledger):
    with ledger._transaction("finish") as connection:
        connection.exec_driver_sql("UPDATE campaigns SET finished = 'done'")
        assert in_child(lambda: ledger.campaign("heat").finished is None or 1 / 0) == 0
    assert ledger.campaign("heat").finished == "done"


def test_threads_share_an_instance(ledger):
    threads = [threading.Thread(target=propose, args=(ledger, number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(trial.number for trial in ledger.trials("heat")) == list(range(1, 9))
    assert [event.id for event in ledger.history("heat")] == list(range(1, 10))
