"""Ledger in one SQLite file, in WAL mode: the default.

A process keeps its idle connection open, because closing the last one folds the log into the file, which costs some
ten times a commit. Before a fork idle connections are closed: a child that inherited one would share SQLite's idea of
which locks are held with its parent, and could damage the file. For the same reason nothing here opens the file but
SQLite: closing any other descriptor of it would drop the process's locks (POSIX), and another process could then fold
the log away under a connection that is in use.
"""

import atexit
import errno
import json
import os
import re
import sqlite3
import tempfile
import time
from pathlib import Path
from urllib.parse import quote
from weakref import WeakSet, WeakValueDictionary

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError, OperationalError

from fieldcraft.storage.ledger.errors import LedgerBusy, LedgerError, NetworkFileSystem, NoLedger, NotALedger
from fieldcraft.storage.ledgers.opening import make_tables, settle_schema
from fieldcraft.storage.ledgers.sql import SqlLedger
from fieldcraft.storage.ledgers.statements import OPTIONS, Alike
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.wal import hidden

BUSY_SECONDS = 30.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NETWORK = frozenset(
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs"),
        *("fuse.glusterfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.ceph", "fuse.beegfs"),
        *("davfs", "fuse.davfs2"),
    ]
)


_OF_THE_DISK = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)
_PROBE = 4096  # bytes
_OCTAL = re.compile(r"\\([0-7]{3})")  # how a space, a tab, a line break or a backslash is written in a list of mounts

_engines: WeakSet[Engine] = WeakSet()
_opened: WeakValueDictionary[tuple[str, int, int], Engine] = WeakValueDictionary()  # by path, device and inode
_sound: WeakSet[Engine] = WeakSet()  # on files that were found to be ledgers of this schema, on a local disk


def close_idle() -> None:
    """Close the connections that this process keeps open; the next use of a ledger opens one again."""
    for engine in list(_engines):
        engine.dispose()


os.register_at_fork(before=close_idle)
atexit.register(close_idle)


class SqliteDialect(Alike, SQLiteDialect_pysqlite):
    """SQLAlchemy's own, whose statements are compiled once for all files."""

    supports_statement_cache = True


registry.register("sqlite.fieldcraft", __name__, SqliteDialect.__name__)


class SqliteLedger(SqlLedger):
    """The ledger on SQLite."""

    @property
    def shown(self) -> str:
        """Path of the file."""
        return str(self._engine.url.database)

    def _explain(self, error: DBAPIError) -> LedgerError:
        """Translate SQLite's error into a ledger error with the remedy."""
        return _explain(error, self.shown)

    def _is_of_a_row(self, error: DBAPIError) -> bool:
        """True for text that is not UTF-8, for which there is no code, and for SQLite's error about invalid JSON."""
        return _code(error) in (0, sqlite3.SQLITE_ERROR)

    def _integrity(self, connection: Connection) -> list[str]:
        """SQLite's own check of its pages, indices and foreign keys."""
        pages = [str(line) for line in connection.exec_driver_sql("PRAGMA integrity_check").scalars() if line != "ok"]
        rows = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        return [f"The ledger's file is damaged: {line}" for line in pages] + [
            f"A row of {row[0]} refers to a row of {row[2]} that is missing." for row in rows
        ]


def open_ledger(path: Path, *, create: bool, upgrade: bool) -> SqliteLedger:
    """Open the ledger in the file ``path``; see ``storage.open_ledger.open_ledger``."""
    path = path.expanduser().absolute()
    if path.exists() and _is_sound(engine := _shared(path)):
        return SqliteLedger(engine)
    if kind := network_file_system(path, _mounts()):
        raise NetworkFileSystem(
            f"The ledger {path} would lie on a network file system ({kind}), where SQLite's locks cannot be trusted "
            "and two processes could damage it. Put the campaign's folder on a local disk."
        )
    if not path.exists():
        if not create:
            raise NoLedger(
                f"There is no ledger at {path}. Go to the folder in which the campaign was begun, name its stores with "
                "--home or FIELDCRAFT_HOME, or begin a campaign with 'fieldcraft run'."
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(
                f"The folder {path.parent} cannot be made ({error.strerror or error}). Name a folder you may write."
            ) from error
    _require_whole_log(path)
    engine = _engine(path, create) if create and not path.exists() else _shared(path)
    try:
        writable = _access(path, create=False) == "mode=rw"
        make = _make_tables if create else None
        settle_schema(engine, str(path), make=make, may_upgrade=upgrade, writable=writable)
    except DBAPIError as error:
        engine.dispose()
        raise _explain(error, str(path)) from error
    except (ValueError, TypeError) as error:  # names of tables, or the row that says what it is
        engine.dispose()
        raise _damaged(path, error) from error
    except LedgerError:
        engine.dispose()
        raise
    shared = _shared(path)
    _sound.add(shared)
    if shared is not engine:
        engine.dispose()  # a connection of the one that made the file would keep the log from being folded in
    return SqliteLedger(shared)


def _require_whole_log(path: Path) -> None:
    """Refuse a ledger whose committed changes SQLite would drop as soon as it opens it."""
    log = path.with_name(f"{path.name}-wal")
    if (found := hidden(log)) is not None:
        commits = f"{found.commits} commit{'s' if found.commits > 1 else ''}"
        raise NotALedger(
            f"The ledger's log {log} is damaged at byte {found.at}: at least {commits} after that cannot be read, and "
            "would be dropped without a word. Nothing was changed. Restore a backup (`fieldcraft restore`), or have a "
            f"copy of the folder and go on without them: `truncate -s {found.at} {log}`."
        )


def _is_sound(engine: Engine) -> bool:
    """True if this process has found the file to be a ledger before and no newer version has upgraded it since."""
    if engine not in _sound:
        return False
    try:
        with engine.connect() as connection:
            version = connection.exec_driver_sql("SELECT schema_version FROM store").scalar()
    except (DBAPIError, ValueError):  # damaged meanwhile: what opens it anew explains that
        return False
    return bool(version == schema.SCHEMA_VERSION)


def network_file_system(path: Path, mounts: str) -> str | None:
    """Type of the network file system that ``path`` lies on, or None.

    Args:
        path: An absolute path, which need not exist.
        mounts: Text in the format of ``/proc/mounts``; with an empty text the result is None.
    """
    found, real = ("", ""), path.resolve()
    for line in mounts.splitlines():
        fields = line.split(" ")
        point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[1]) if len(fields) > 2 else ""
        if point and len(point) >= len(found[0]) and real.is_relative_to(point):
            found = (point, fields[2])
    return found[1] if found[1] in _NETWORK else None


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(errors="replace")
    except FileNotFoundError:  # not Linux
        return ""


def _shared(path: Path) -> Engine:
    """The engine that this process already has on the file, with compiled statements; else a new one."""
    file = path.stat()
    key = (str(path), file.st_dev, file.st_ino)
    engine = _opened.get(key)
    if engine is None:
        engine = _opened[key] = _engine(path, create=False)
    return engine


def _engine(path: Path, create: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        uri = f"file:{quote(str(path))}?{_access(path, create)}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    url, kept = f"sqlite+fieldcraft:///{path}", {"poolclass": QueuePool, "execution_options": OPTIONS}
    engine = create_engine(url, creator=connect, json_serializer=_json, **kept)
    event.listen(engine, "begin", _begin)
    _engines.add(engine)
    return engine


def _json(value: object) -> str:
    """Canonical JSON, but in the order of the keys: the objective stays the first output."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _access(path: Path, create: bool) -> str:
    """Options to open the file: a reader without the right to write can read, and a reader never creates it."""
    if create and not path.exists():
        return "mode=rwc"
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return "mode=rw"
    # Reading a WAL file needs files beside it, which such a reader cannot make; without a log nobody writes just now.
    return "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"


def _begin(connection: Connection) -> None:
    """Begin a transaction. A writer takes the lock at once, since a lock taken after a read could come too late."""
    options = connection.get_execution_options()
    if options.get("write"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif not options.get("outside"):
        connection.connection.execute("BEGIN")  # takes no lock yet, so that it cannot fail


def _make_tables(engine: Engine) -> None:
    with engine.connect().execution_options(outside=True) as connection:
        _log_ahead(connection)
    make_tables(engine)


def _log_ahead(connection: Connection) -> None:
    """Set WAL mode, which is kept in the file and cannot be set in a transaction.

    While another process is about to write, SQLite refuses this at once instead of waiting, so it is tried again.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            return
        except OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _code(error: DBAPIError) -> int:
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # none where it is Python's driver that complains


def _damaged(place: Path | str, problem: object) -> NotALedger:
    return NotALedger(
        f"{place} is not a ledger, or is damaged: {problem}. Name the ledger of a campaign, or restore it from a copy."
    )


def _explain(error: DBAPIError, place: str) -> LedgerError:
    problem, code = error.orig, _code(error)
    if code in _BUSY:
        return LedgerBusy(
            f"The ledger {place} was locked by another process for {BUSY_SECONDS:.0f} s. Look for a process that is "
            "stopped in the middle of a write, end it, and repeat."
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return _damaged(place, problem)
    remedies = {
        sqlite3.SQLITE_READONLY: "You may only read it: ask its owner, or copy the folder and work on the copy.",
        sqlite3.SQLITE_CANTOPEN: "Check that it is a file in an existing folder, which you may read and write.",
        sqlite3.SQLITE_FULL: "The disk is full: free some space and repeat; nothing was lost.",
        sqlite3.SQLITE_IOERR: "The disk reports an error: check it, and repeat; nothing was written.",
    }
    if code in remedies and (cause := _refusal(Path(place).parent)) is not None:
        return LedgerError(
            f"The ledger {place} could not be used: {problem}. {Path(place).parent} takes no file: {cause}. Nothing "
            "was lost: mend that and repeat."
        )
    remedy = remedies.get(code, "Nothing was written; `fieldcraft doctor` checks the ledger.")
    return LedgerError(f"The ledger {place} could not be used: {problem}. {remedy}")


def _refusal(folder: Path) -> str | None:
    """Error of a disk that is full, fails, or is read-only; None if a file can be written."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.strerror if error.errno in _OF_THE_DISK else None
    return None
