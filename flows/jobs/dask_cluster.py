"""Connection to Dask: the cluster that the operator names, or one of this machine that outlives the passes.

FOLDER/scheduler.json   address of this machine's scheduler; Dask's own file
FOLDER/cluster.json     the processes of scheduler and worker
FOLDER/tls.pem          key and certificate of this cluster: whoever can read it can run programs as this account
FOLDER/scheduler.log, worker.log

A scheduler on loopback would obey every account of the machine. This one talks only to holders of its key.
"""

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fieldcraft.flows.jobs.job_folder import process_of, read_json, write_json
from fieldcraft.flows.settings import without_secrets
from fieldcraft.storage.processes import boot, is_alive

if TYPE_CHECKING:
    from distributed import Client, Scheduler
    from distributed.security import Security

_START_S = 60.0
_IDLE_S = 3600
"""A scheduler that has had no job for so long ends; the next job starts another."""
_ANSWER_S = 5.0


class Unreachable(Exception):
    """No scheduler answers; the message says where and why."""


@dataclass(frozen=True)
class NamedCluster:
    """A cluster that the operator runs.

    Args:
        address: ``tcp://HOST:PORT``, ``tls://HOST:PORT``, or the path of a scheduler file.
    """

    address: str

    def start(self) -> None:
        """Do nothing: the operator starts this cluster."""

    def mend(self) -> None:
        """Do nothing: the operator replaces its workers."""

    def ended(self) -> str | None:
        """The reason why no waiting job can begin; always None, because only the scheduler knows."""
        return None

    def connect(self) -> "Client":
        """A client of the scheduler; certificates for ``tls://`` are those of Dask's own configuration.

        Raises:
            Unreachable: it does not answer, has no certificates, or its file is none.
        """
        if "://" in self.address:
            return _client(self.address)
        file = Path(self.address)
        if not file.exists():
            hint = "; an address begins with tcp:// or tls://" if ":" in file.name else ""
            raise Unreachable(f"there is no scheduler file {file}{hint}")
        found = None if file.is_dir() else _address(file)
        if found is None or "://" not in found:
            raise Unreachable(f"{file} is no scheduler file: it tells no address")
        return _client(found)


@dataclass(frozen=True)
class OwnCluster:
    """A scheduler and a worker of this machine, which run on when the pass that started them ends.

    Args:
        folder: Folder of their files.
    """

    folder: Path

    def start(self) -> None:
        """Start the scheduler and the worker where they do not run; one process at a time does this.

        Raises:
            Unreachable: the scheduler did not start.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(self.folder / "lock"):
            running = read_json(self.folder / "cluster.json")
            if not _alive(running.get("scheduler")):
                running = {"scheduler": self._start_scheduler()}
                write_json(self.folder / "cluster.json", running)
            if not _alive(running.get("worker")):
                write_json(self.folder / "cluster.json", {**running, "worker": self._start_worker()})

    def mend(self) -> None:
        """Replace a worker that has ended while its scheduler runs, for the jobs that wait."""
        if self.ended() is None and not _alive(read_json(self.folder / "cluster.json").get("worker")):
            self.start()

    def ended(self) -> str | None:
        """The reason why no waiting job can begin: its scheduler has ended and lost its tasks. None while it runs."""
        scheduler = read_json(self.folder / "cluster.json").get("scheduler")
        return None if _alive(scheduler) else "the local Dask cluster that was to run it has ended"

    def connect(self) -> "Client":
        """A client of the scheduler.

        Raises:
            Unreachable: it does not answer.
        """
        address = _address(self.folder / "scheduler.json")
        if address is None:
            raise Unreachable(f"no Dask cluster was started in {self.folder}")
        return _client(address, security=self._security())

    def _start_scheduler(self) -> dict[str, Any]:
        self._write_key()
        (self.folder / "scheduler.json").unlink(missing_ok=True)
        words = ("--host", "tls://127.0.0.1", "--port", "0", "--idle-timeout", f"{_IDLE_S}s")
        child = self._spawn("scheduler", *words)
        deadline = time.monotonic() + _START_S
        while _address(self.folder / "scheduler.json") is None:
            if child.poll() is not None or time.monotonic() > deadline:
                child.kill()
                raise Unreachable(f"the local Dask scheduler did not start: see {self.folder / 'scheduler.log'}")
            time.sleep(0.02)
        return process_of(child.pid)

    def _start_worker(self) -> dict[str, Any]:
        threads = str(os.cpu_count() or 1)  # each only waits for a process
        words = ("--nworkers", "1", "--nthreads", threads, "--host", "tls://127.0.0.1", "--memory-limit", "0")
        scratch = ("--local-directory", str(self.folder))
        return process_of(self._spawn("worker", *words, *scratch, "--death-timeout", "60").pid)

    def _spawn(self, role: str, *words: str) -> "subprocess.Popen[bytes]":
        key = str(self.folder / "tls.pem")
        tls = ("--tls-ca-file", key, "--tls-cert", key, "--tls-key", key)
        file = ("--scheduler-file", str(self.folder / "scheduler.json"))
        pages = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")  # there is a port for health in any case
        with (self.folder / f"{role}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", f"distributed.cli.dask_{role}", *file, *pages, *tls, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without_secrets(os.environ),
                start_new_session=True,
            )

    def _write_key(self) -> None:
        """Write a key and a certificate for this cluster, readable to its account alone."""
        from distributed.security import Security

        made = Security.temporary()
        draft = self.folder / ".tls.pem"
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{made.tls_client_cert}{made.tls_client_key}")
        os.replace(draft, self.folder / "tls.pem")

    def _security(self) -> "Security":
        from distributed.security import Security

        key = str(self.folder / "tls.pem")
        return Security(require_encryption=True, tls_ca_file=key, tls_client_cert=key, tls_client_key=key)


Cluster = NamedCluster | OwnCluster
_clients: dict[tuple[int, Cluster], "Client"] = {}


@contextmanager
def client_of(cluster: Cluster) -> Iterator["Client"]:
    """A client of a cluster, one for each process (a forked process has none of its parent's threads).

    Raises:
        Unreachable: the scheduler does not answer, now or while the block talks to it.
    """
    client = _clients.get((os.getpid(), cluster))
    if client is None or client.status != "running":
        _drop(cluster)
        client = _clients[os.getpid(), cluster] = cluster.connect()
    try:
        yield client
    except (OSError, TimeoutError) as error:
        _drop(cluster)
        raise Unreachable(f"Dask's scheduler does not answer ({type(error).__name__}: {error})") from None


def known(client: "Client", ticket: str) -> bool:
    """True if the scheduler has a task of this name.

    Raises:
        OSError: it does not answer; or ``TimeoutError``.
    """
    if client.scheduler is None:
        raise ConnectionError("the client was closed")
    found: Mapping[str, Any] = client.sync(client.scheduler.get_task_status, keys=[ticket], callback_timeout=_ANSWER_S)
    return found[ticket] is not None


def keep(client: "Client", ticket: str) -> bool:
    """Have the scheduler finish a task after this client closes; False where it does not know the task (yet).

    Raises:
        OSError: it does not answer; or ``TimeoutError``.
    """
    # Dask's own fire_and_forget is not acknowledged, and is lost where this process is killed just then.
    known: bool = client.run_on_scheduler(_kept, ticket, callback_timeout=_ANSWER_S)
    return known


def _kept(ticket: str, dask_scheduler: "Scheduler") -> bool:
    task = dask_scheduler.tasks.get(ticket)
    if task is not None and task.state not in ("memory", "erred"):  # one that has ended would be kept for ever
        dask_scheduler.client_desires_keys(keys=[ticket], client="fire-and-forget")
    return task is not None


def _address(scheduler_file: Path) -> str | None:
    """The address in a scheduler file; None where there is none yet, or the file is being written.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        found = read_json(scheduler_file).get("address")
    except ValueError:
        return None
    return None if found is None else str(found)


def _drop(cluster: Cluster) -> None:
    if (client := _clients.pop((os.getpid(), cluster), None)) is not None:
        # A client that is just giving its scheduler up refuses to close, by a RuntimeError.
        with suppress(RuntimeError, OSError):
            client.close(timeout=1)


async def _greeted(address: str, certificates: Mapping[str, Any]) -> None:
    """Return once a scheduler has answered as Dask does; Dask's client waits for ever for one that answers otherwise.

    Raises:
        OSError: it does not answer so.
    """
    from distributed.comm.core import connect

    try:
        comm = await asyncio.wait_for(connect(address, timeout=_ANSWER_S, **certificates), 2 * _ANSWER_S)
    except TimeoutError:
        raise ConnectionError("what takes the connection does not speak as Dask does") from None
    await comm.close()


def _client(address: str, security: "Security | None" = None) -> "Client":
    from distributed import Client
    from distributed.security import Security

    parts, security = urlsplit(address), security or Security()
    certificates = security.get_connection_args("client")
    if parts.scheme == "tls" and certificates.get("ssl_context") is None:
        raise Unreachable(
            f"{address} needs certificates, and Dask's configuration has none (distributed.comm.tls.ca-file, "
            "client.cert and client.key)"
        )
    try:
        # One that refuses is found out at once; Dask would go on trying.
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_ANSWER_S).close()
        with ThreadPoolExecutor(1) as beside:  # this thread may have a loop of its own, as in a notebook
            beside.submit(asyncio.run, _greeted(address, certificates)).result()
        return Client(address, timeout=_ANSWER_S, set_as_default=False, security=security)
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"no Dask scheduler answers at {address} ({type(error).__name__}: {error})") from None


def _alive(process: Mapping[str, Any] | None) -> bool:
    return process is not None and process["boot"] == boot() and is_alive(process["pid"], process["started"])


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
