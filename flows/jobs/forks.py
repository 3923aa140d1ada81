"""Processes forked for jobs by a server (``flows.jobs.fork_server``), which lives as long as the process that asks."""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SERVER = "fieldcraft.flows.jobs.fork_server"
ANSWER_S = 30.0
"""A server that has not answered by then is given up."""
ASKED_LATE = ("FIELDCRAFT_", "PREFECT_")
"""Beginnings of variables that are read when they are needed; any other may have been read by what was imported."""


class NoFork(Exception):
    """The server forked nothing: it could not start, has ended or does not answer. The message says which."""


def begun(link: socket.socket, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """The server's process, which answers on ``link``."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _SERVER],
        stdin=link.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,  # Ctrl-C is for the process that sends simulations
    )


class ForkServer:
    """A running server, for jobs with one environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start the server; it answers once it has imported what every simulation needs."""
        self.owner, self.kept = os.getpid(), _kept(environment)
        self.link, theirs = socket.socketpair()
        with theirs:
            self.child = begun(theirs, environment)
        self.link.settimeout(ANSWER_S)

    def serves(self, environment: Mapping[str, str]) -> bool:
        """True if this is a server of this process, and would import the same with this environment."""
        return self.owner == os.getpid() and self.kept == _kept(environment)

    def forked(self, folder: Path, environment: Mapping[str, str], log: int) -> dict[str, Any]:
        """The process that runs the job in ``folder``: number, start and boot, as ``job_folder.process_of`` has them.

        Args:
            folder: The job's folder.
            environment: The process's environment.
            log: Descriptor of the file that its output goes to.

        Raises:
            NoFork: there is none, or none is known of.
        """
        request = {"folder": str(folder), "environment": dict(environment), "cwd": os.getcwd()}
        try:
            socket.send_fds(self.link, [b" "], [log])
            self.link.sendall(json.dumps(request).encode() + b"\n")
            answer = line_of(self.link)
        except OSError as error:  # the time is over, too
            raise NoFork(f"the server of simulations does not answer ({error})") from None
        if not answer:
            raise NoFork(f"the server of simulations ended with status {self.child.wait()}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the server; what it forked goes on."""
        self.link.close()
        if self.owner == os.getpid():
            self.child.kill()
            self.child.wait()


_LOCK = threading.Lock()
_servers: list[ForkServer] = []  # none, or this process's


def forked(folder: Path, environment: Mapping[str, str], log: int) -> dict[str, Any]:
    """``ForkServer.forked`` by this process's server, which is started where there is none of that environment.

    Raises:
        NoFork: there is no process, or none is known of; the server was given up.
    """
    with _LOCK:
        if _servers and not _servers[0].serves(environment):
            _servers.pop().close()
        if not _servers:
            _servers.append(ForkServer(environment))
        try:
            return _servers[0].forked(folder, environment, log)
        except NoFork:
            _servers.pop().close()
            raise


@atexit.register
def _close() -> None:
    while _servers:
        _servers.pop().close()


def _kept(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(ASKED_LATE)}


def line_of(link: socket.socket, begun: bytes = b"") -> bytes:
    """The bytes until the end of a line; empty where the other side has gone."""
    while not begun.endswith(b"\n"):
        more = link.recv(1 << 16)
        if not more:
            return b""
        begun += more
    return begun
