"""A Prefect server for the length of one command, tuned for it, that ends with the process that started it.

Prefect's own temporary server takes 13-25 s: it runs every migration on an empty database, registers every block type,
starts services that a local run does not need, and each flow then waits a second for a heartbeat thread. Here the
server starts first and imports go on beside it, a new database is copied from a migrated one, and the server ends when
the pipe to its parent closes (even if the parent was killed).
"""

import asyncio
import logging
import os
import re
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.machinery.collecting import as_usual, seldom
from fieldcraft.storage.empty_databases import provide
from fieldcraft.storage.text import one_line, without_password

if TYPE_CHECKING:
    import httpx

_UNUSED_SERVICES = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "EVENT_LOGGER",
    "EVENT_PERSISTER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TRIGGERS",
)
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
}
LOCAL = {
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_UI_ENABLED": "0",
    # Together: a statement for the state of one task takes as long as one for those of a second.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    **{f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false" for service in _UNUSED_SERVICES},
}
_AWAY = {401, 403, 408, 429, 500, 502, 503, 504}  # what an API answers with another password, no time or no database
_OURS = ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING")
START_S = 120.0
_REFUSED_S = 10.0  # how long the user's own server may refuse connections; one that only is slow has START_S
_LOOK_S = 5.0
_DRAIN_S = 5.0  # for the events of flows that have ended
_LEAVE_S = 5.0  # for a server to end
_ERROR = re.compile(r"[\w.]+(Error|Exception): ")  # the last line of a traceback


class Server:
    """A Prefect API for this process: the user's own (``PREFECT_API_URL``), or a child's."""

    def __init__(self, home: Path) -> None:
        """Begin to start a server, unless the user names one, and return at once; call before importing Prefect.

        The child imports its modules and then waits for ``begin``: until then nothing is written.
        """
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        self.child: subprocess.Popen[bytes] | None = None
        self.begun = False
        # Prefect makes its home as soon as it is imported, but not that folder's parent: until ``begin`` there is none.
        self.home = home / "server"
        self.log = self.home / "server.log"
        self.logged = self.log.stat().st_size if self.log.exists() else 0  # by servers before this one
        self.before: dict[str, str | None] = {}
        if os.environ.get("PREFECT_API_URL"):
            return
        self.before = {name: os.environ.get(name) for name in _OURS}
        os.environ["PREFECT_HOME"] = str(self.home)
        # Only this process and its children can use the server: the password is never written anywhere.
        os.environ["PREFECT_SERVER_API_AUTH_STRING"] = os.environ["PREFECT_API_AUTH_STRING"] = (
            f"fieldcraft:{secrets.token_urlsafe(24)}"
        )
        with bound() as listener:
            os.environ["PREFECT_API_URL"] = api_of(listener)
            self.child = subprocess.Popen(
                command_of(listener),
                env={**os.environ, **LOCAL},
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C is for the campaign; the pipe ends the server after it
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def begin(self) -> None:
        """Tell the child to write its database and serve.

        Raises:
            FieldcraftError: it has ended; nothing was changed.
        """
        if self.child is not None:
            assert self.child.stdin is not None  # piped above
            self.begun = True
            self.home.mkdir(parents=True, exist_ok=True)
            try:
                self.child.stdin.write(b"b")
                self.child.stdin.flush()
            except BrokenPipeError:
                raise self._ended("before it began to serve") from None

    def _ended(self, when: str) -> FieldcraftError:
        """The error for a child that has ended."""
        assert self.child is not None  # it is gone
        from fieldcraft.storage.processes import signal_name

        status, said = self.child.wait(), self._last_error()
        how = f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
        why = f"; {self.log} says: {said.rstrip('.')}" if said else ""
        return FieldcraftError(
            f"The local Prefect server {how} {when}{why}. Nothing is lost: run the same command again. If that does "
            f"not help, delete {self.home}: nothing that counts is kept there."
        )

    def _last_error(self) -> str:
        """The last error that the child wrote into the log, or its last line; empty if it wrote none."""
        try:
            with self.log.open("rb") as log:
                log.seek(self.logged)
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        lines = [one_line(line).strip() for line in text.split("\n") if line.strip()]
        errors = [line for line in lines if _ERROR.match(line)]
        return (errors or lines or [""])[-1]

    def ready(self) -> None:
        """Wait until the API answers.

        Raises:
            FieldcraftError: it does not; nothing was changed.
        """
        import httpx

        url, began = os.environ["PREFECT_API_URL"].rstrip("/"), time.monotonic()
        shown, slow, refused = without_password(url), False, 0
        with httpx.Client(timeout=_LOOK_S, auth=self._auth()) as client:  # one: it reads all certificates
            while time.monotonic() < began + (START_S if self.child or slow else _REFUSED_S) and (
                self.child is None or self.child.poll() is None
            ):
                try:
                    found = client.get(f"{url}/health")
                    if found.status_code == 200:
                        if self.child is None:
                            self._refuse_no_entry(client, url)
                        return
                    slow, refused = slow or found.status_code >= 500, found.status_code
                except httpx.ReadTimeout:
                    slow = True
                except httpx.HTTPError:
                    pass
                time.sleep(0.05)
        if self.child is not None and self.child.poll() is not None:
            raise self._ended("before it answered")
        if self.child is not None:
            raise FieldcraftError(
                f"The local Prefect server did not answer within {START_S:.0f} s; {self.log} may say why. "
                f"Nothing is lost: run the same command again. If that does not help, delete {self.home}: nothing that "
                "counts is kept there."
            )
        if slow:
            raise FieldcraftError(
                f"The Prefect API at {shown} took the connection, but did not answer within {START_S:.0f} s. Nothing "
                "is lost: see what keeps that server busy, or unset PREFECT_API_URL to use a local one, and run again."
            )
        if refused:
            raise FieldcraftError(
                f"PREFECT_API_URL is {shown}, where a server answers {shown}/health with {refused}: no Prefect API is "
                "there. Its address ends with /api, as in http://127.0.0.1:4200/api. Mend that, or unset it to use a "
                "local one."
            )
        raise FieldcraftError(
            f"No Prefect API answers at {shown}. Start that server, or unset PREFECT_API_URL to use a local one."
        )

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Raise a one-line error if the API stops answering within the block for longer than Prefect's client retries.

        Raises:
            FieldcraftError: it did.
        """
        import httpx

        try:
            yield
        except (httpx.HTTPError, RuntimeError) as error:
            if (problem := silence(error)) is None:
                raise
            raise FieldcraftError(
                f"The Prefect API at {without_password(os.environ['PREFECT_API_URL'])} does not answer any more "
                f"({without_password(problem)}). Nothing is lost: start that server again, or unset PREFECT_API_URL to "
                "use a local one, and run again."
            ) from error

    def _refuse_no_entry(self, client: "httpx.Client", url: str) -> None:
        """Accept an API that lets this process in by the password it has; a key is for Prefect's cloud."""
        from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY
        from pydantic import SecretStr

        if PREFECT_API_KEY.value():
            return
        said = PREFECT_API_AUTH_STRING.value()  # of Prefect's profile, where the environment has none
        given = said.get_secret_value() if isinstance(said, SecretStr) else said
        auth = self._auth() or (_pair(given) if given else None)
        if client.get(f"{url}/admin/version", auth=auth).status_code in (401, 403):
            raise FieldcraftError(
                f"The Prefect API at {without_password(url)} refuses the password. Set PREFECT_API_AUTH_STRING to "
                "USER:PASSWORD as that server has it, and run again. Nothing was changed."
            )

    def _auth(self) -> tuple[str, str] | None:
        given = os.environ.get("PREFECT_API_AUTH_STRING", "")
        return _pair(given) if ":" in given else None

    def close(self) -> None:
        """End the child, and restore the environment.

        A child that has not begun is killed: it has written nothing.
        """
        if self.child is not None:
            if self.begun:
                _send_events()
            else:
                self.child.kill()
            self.child.communicate()
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _pair(given: str) -> tuple[str, str]:
    """User and password of USER:PASSWORD."""
    user, _, password = given.partition(":")
    return user, password


def bound() -> socket.socket:
    """A socket with a free port of 127.0.0.1, at which a server is to listen."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


def command_of(listener: socket.socket) -> list[str]:
    """The command of a server at a socket, which is to be inherited."""
    return [sys.executable, "-P", "-m", "fieldcraft.flows.machinery.prefect_server", str(listener.fileno())]


def api_of(listener: socket.socket) -> str:
    """URL of the API of the server at a socket."""
    return f"http://127.0.0.1:{listener.getsockname()[1]}/api"


def silence(error: Exception) -> str | None:
    """The reason why Prefect's client gave up on the API, in one line; None for an error of another kind."""
    import httpx

    # A RuntimeError is how it tells of its first look at the server.
    cause = error.__cause__ if type(error) is RuntimeError else error
    away = isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code in _AWAY
    if not away and not isinstance(cause, httpx.TransportError):
        return None
    return str(cause).partition("\n")[0] or type(cause).__name__


def _send_events() -> None:
    """Send the events that Prefect still holds, while the server runs.

    At the end of the process Prefect would try for a minute to reach the server that has ended, and print the failure.
    """
    if "prefect.events.worker" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker

    logging.getLogger(EventsWorker.__name__).setLevel(logging.CRITICAL)
    EventsWorker.drain_all(timeout=_DRAIN_S)


@contextmanager
def without_heartbeats() -> Iterator[None]:
    """Run flows without heartbeats within the block: their thread costs each flow call up to 1 s.

    The pass lease shows instead which process is alive.
    """
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


@contextmanager
def one_client() -> Iterator[None]:
    """Share one client among the flows inside.

    Otherwise each would make its own client, load certificates and ask for the version.
    """
    from prefect.context import SyncClientContext

    with SyncClientContext.get_or_create():
        yield


def migrated(database: Path) -> None:
    """Migrate the new database of this process's Prefect."""
    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _serve(listener: socket.socket) -> None:
    seldom()
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True)  # takes as long as the imports; it writes nothing before it serves
    as_usual()
    if not os.read(0, 1):
        return  # the parent found something wrong and left

    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))

    def end_with_parent() -> None:
        os.read(0, 1)  # returns when the parent closes the pipe, by dying too
        server.should_exit = True  # writes the states of tasks that it has not written yet
        time.sleep(_LEAVE_S)
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    home = Path(os.environ["PREFECT_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    with (home / "server.log").open("ab") as log:
        os.dup2(log.fileno(), 2)
    provide("prefect", home / "prefect.db", migrated)
    server.run(sockets=[listener])
    os._exit(0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
