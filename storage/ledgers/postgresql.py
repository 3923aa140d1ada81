"""The ledger in a PostgreSQL database: for campaigns whose processes run on several machines.

Writers take turns, as in SQLite: a write begins by taking one lock of the database's (``pg_advisory_xact_lock``), which
its commit or rollback gives back. Each transaction then runs alone at READ COMMITTED, so that every read-then-write of
the shared code is safe without changes: budget, lease, idempotent proposals, the making of the tables. Serialisable
transactions would let writers overlap and have one of them repeat; a transaction takes a few milliseconds, so there is
nothing to be gained by that. Reads never wait: they run at REPEATABLE READ, on one snapshot.

A process that is stopped in the middle of a write blocks all other writers, so the server ends its session before their
waits time out. A writer whose connection breaks has written nothing, unless it broke during the commit. Then the
outcome is unknown, ``OutcomeUnknown`` is raised, and nothing is repeated automatically.
"""

import atexit
import json
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import ArgumentError, DBAPIError

from fieldcraft.storage.ledger.errors import (
    InvalidRecord,
    LedgerBusy,
    LedgerError,
    NoLedger,
    NotALedger,
    OutcomeUnknown,
)
from fieldcraft.storage.ledgers.opening import make_tables, settle_schema
from fieldcraft.storage.ledgers.sql import SqlLedger
from fieldcraft.storage.ledgers.statements import OPTIONS, Alike

BUSY_SECONDS = 30.0  # how long a writer waits for its turn
IDLE_SECONDS = 20.0  # how long one may leave the server waiting in the middle of a transaction
STATEMENT_SECONDS = 60.0  # how long one statement may take, its waiting included
ANSWER_SECONDS = 10.0  # how long a server may take to answer a new connection
_WRITERS = 0x6669656C64637261  # "fieldcra": the lock's number, the same for every process and version
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # in JSON; the backslash itself is not escaped
_SECRET = ("password", "sslpassword")

_KEPT = 4  # engines, and with them connections, that stay open for the next who opens the same ledger
_opened: dict[str, Engine] = {}  # by URL, the one opened last at the end
_engines: WeakSet[Engine] = WeakSet()  # all there are


def _close_idle() -> None:
    for engine in list(_engines):
        engine.dispose()


def _forget_connections() -> None:
    """Forget the connections in a forked child; they are the parent's, so they are neither used nor closed."""
    for engine in list(_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)
atexit.register(_close_idle)


class PostgresDialect(Alike, PGDialect_psycopg):
    """SQLAlchemy's own, whose statements are compiled once for all databases."""

    supports_statement_cache = True


registry.register("postgresql.fieldcraft", __name__, PostgresDialect.__name__)


class PostgresLedger(SqlLedger):
    """The ledger on PostgreSQL."""

    @property
    def shown(self) -> str:
        """The URL as it may be shown."""
        return _place(self._engine.url)

    def _explain(self, error: DBAPIError) -> LedgerError:
        """Translate PostgreSQL's error into a ledger error with the remedy."""
        return _explain(error, self.shown)

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            raise OutcomeUnknown(
                f"The connection to {self.shown} broke while a write was being committed, so it is not "
                "known whether it was stored. Repeat it: what was stored is not stored twice."
            ) from error

    def _integrity(self, connection: Connection) -> list[str]:
        """Settings of the server under which a commit may be lost; damaged pages are found by reading all rows."""
        names = ("fsync", "full_page_writes", "synchronous_commit")
        off = [name for name in names if connection.exec_driver_sql(f"SHOW {name}").scalar() == "off"]
        return [
            f"The server of {self.shown} has {name} off: a power cut may lose writes. Set it to on." for name in off
        ]


def open_ledger(place: str, *, create: bool, upgrade: bool) -> PostgresLedger:
    """Open the ledger at a URL; see ``storage.open_ledger.open_ledger``."""
    engine = _shared(place)
    shown = _place(engine.url)
    try:
        settle_schema(engine, shown, make=_make if create else None, may_upgrade=upgrade, writable=True)
    except DBAPIError as error:
        raise _explain(error, shown) from error
    return PostgresLedger(engine)


def _shared(place: str) -> Engine:
    """The engine that this process already has on the ledger, with its open connections; else a new one."""
    engine = _opened.pop(place, None) or _engine(_url(place))
    _opened[place] = engine
    for oldest in list(_opened)[:-_KEPT]:
        _opened.pop(oldest).dispose()  # whoever still uses it connects again
    return engine


def _url(place: str) -> URL:
    """The parsed URL; an error never quotes it, since it may hold a password."""
    user, at, _ = place.partition("://")[2].rpartition("@")
    if at and re.search("[/?#@]", user):
        raise LedgerError(
            "The ledger's URL has one of / ? # @ before its last @: write them as %2F, %3F, %23 and %40 in a user's "
            "name, a password or an option."
        )
    try:
        url = make_url(place)
        sound = urlsplit(place).port != 0
    except (ArgumentError, ValueError):
        sound = False
    if not sound or not url.database:
        raise LedgerError("The ledger's URL is none: write postgresql://USER@HOST:PORT/DATABASE.")
    if secret := [name for name in _SECRET if name in url.query]:
        raise LedgerError(
            f"The ledger's URL has the option {secret[0]!r}, which would be shown: give the password as "
            "USER:PASSWORD@, in PGPASSWORD or in a file that PGPASSFILE names."
        )
    return url


def _place(url: URL) -> str:
    """The URL as it may be shown: without the password and without options except the server's address."""
    where = {name: value for name, value in url.query.items() if name in ("host", "port")}
    return _open_url(url, "postgresql", where).render_as_string()


def _open_url(url: URL, driver: str, query: Mapping[str, str | tuple[str, ...]]) -> URL:
    """The URL without its password (``URL.set`` cannot take one away)."""
    return URL.create(driver, url.username, None, url.host, url.port, url.database, query)


def _engine(url: URL) -> Engine:
    if find_spec("psycopg") is None:
        raise LedgerError(
            f"The ledger {_place(url)} needs psycopg, which is not installed: pip install 'fieldcraft[postgresql]', or "
            "pip install 'psycopg[binary]'."
        )
    try:
        engine = create_engine(
            _open_url(url, "postgresql+fieldcraft", dict(url.query) | {"options": _options(url)}),
            connect_args={"password": url.password, "client_encoding": "utf8"} | _PATIENCE,
            json_serializer=_json,
            execution_options=OPTIONS,
            max_overflow=-1,
            pool_pre_ping=True,  # a server that was restarted is connected to again
            use_native_hstore=False,
        )
    except ArgumentError as error:
        raise _no_option(_place(url), str(error)) from error
    event.listen(engine, "begin", _begin)
    _engines.add(engine)
    return engine


# A machine that went away without a word is noticed by the network's own means.
_PATIENCE = {
    "connect_timeout": int(ANSWER_SECONDS),
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": int(1000 * BUSY_SECONDS),
}


def _options(url: URL) -> str:
    """Settings of our sessions, placed after those of the URL, so that ours override them."""
    given = url.query.get("options", ())
    ours = {
        "synchronous_commit": "on",
        "lock_timeout": f"{1000 * BUSY_SECONDS:.0f}",
        "statement_timeout": f"{1000 * STATEMENT_SECONDS:.0f}",
        "idle_in_transaction_session_timeout": f"{1000 * IDLE_SECONDS:.0f}",
    }
    words = [given] if isinstance(given, str) else [*given]
    return " ".join([*words, *(f"-c {name}={value}" for name, value in ours.items())])


def _make(engine: Engine) -> None:
    """Make the tables, in a database that can keep every text."""
    with engine.connect() as connection:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        raise LedgerError(
            f"The database {_place(engine.url)} keeps texts in {encoding}, which cannot hold every text: make another "
            "with createdb -E UTF8 -T template0. Nothing was written."
        )
    make_tables(engine)


def _begin(connection: Connection) -> None:
    """Begin a transaction: a writer takes the writers' lock, and a reader gets a snapshot of one instant."""
    from psycopg import IsolationLevel

    raw = connection.connection.driver_connection
    assert raw is not None  # it has just been taken from the pool
    write = bool(connection.get_execution_options().get("write"))
    raw.isolation_level = IsolationLevel.READ_COMMITTED if write else IsolationLevel.REPEATABLE_READ
    raw.read_only = not write
    if write:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_WRITERS,))


def _json(value: object) -> str:
    """Canonical JSON, but in the order of the keys; refuses text with a NUL, which PostgreSQL cannot query."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRecord(f"A value is not JSON, so nothing was written: {error}.") from error
    if _NUL.search(text):
        raise InvalidRecord("A text holds the character NUL, which PostgreSQL cannot store. Nothing was written.")
    return text


_BUSY = {
    "55P03": f"another process was writing for {BUSY_SECONDS:.0f} s",
    "57014": f"a statement took longer than {STATEMENT_SECONDS:.0f} s",
    "25P03": f"this process left a write standing for {IDLE_SECONDS:.0f} s, so the server ended it",
    "40P01": "two writers waited for each other",
    "40001": "another writer was faster",
}
_REMEDIES = {
    "42501": "This user may not do that: grant it the rights, or name the user who owns the ledger.",
    "3F000": "Make the schema that search_path in its URL names: CREATE SCHEMA. Nothing was written.",
    "25006": "It may only be read here: name the primary server, not a standby.",
    "53": "The server has run out of something: free some and repeat; nothing was lost.",
    "58": "The server's disk reports an error: check it, and repeat; nothing was written.",
}
_OPTION = re.compile(
    "invalid (connection option|command-line argument|value for parameter)|invalid [a-z_]+ value|"
    "unrecognized configuration parameter|definition of service|(certificate|key) file|invalid integer value"
)
_WHILE_IT_STARTS = re.compile("database system is|too many (connections|clients)|connection slots")


def _explain(error: DBAPIError, place: str) -> LedgerError:
    said = " ".join(str(error.orig).split())
    code = getattr(error.orig, "sqlstate", None) or ""
    if code in _BUSY:
        return LedgerBusy(f"The ledger {place} could not be used: {_BUSY[code]}. Nothing was written; repeat it later.")
    if code.startswith(("57P", "08")):
        return _gone(place, said)
    if code.startswith("22") or type(error.orig).__name__ == "DataError":
        return InvalidRecord(f"A value cannot be in the ledger {place}: {said}. Nothing was written; name it as it is.")
    if code in ("XX001", "XX002"):
        return NotALedger(f"The ledger {place} is damaged: {said}. Restore it from a backup.")
    if not code:
        return _not_connected(place, said)
    remedy = _REMEDIES.get(code) or _REMEDIES.get(code[:2])
    return LedgerError(
        f"The ledger {place} could not be used: {said}. "
        f"{remedy or 'Nothing was written; `fieldcraft doctor` checks the ledger.'}"
    )


def _not_connected(place: str, said: str) -> LedgerError:
    """The error for a failed connection; the driver then gives only the server's text and no code."""
    if _OPTION.search(said):
        return _no_option(place, said)
    refused = "FATAL" in said or "no password" in said
    if not refused or _WHILE_IT_STARTS.search(said):
        return _gone(place, said)
    if re.search(r'database ".*" does not exist', said):
        return NoLedger(f"There is no ledger at {place}: {said}. Check the name, or make the database with createdb.")
    return LedgerError(
        f"The server of the ledger {place} refused the connection: {said}. Check user, password (in the URL, "
        "PGPASSWORD or the file that PGPASSFILE names) and database."
    )


def _no_option(place: str, said: str) -> LedgerError:
    return LedgerError(
        f"The options of the ledger {place} are wrong: {said.rstrip('.')}. Mend what follows the ? of its URL "
        "(`docs/operations.md`, 13). Nothing was written."
    )


def _gone(place: str, said: str) -> LedgerBusy:
    return LedgerBusy(
        f"The server of the ledger {place} does not answer: {said}. Nothing was written; check that it runs, and "
        "repeat."
    )
