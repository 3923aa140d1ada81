"""A process that has imported what simulations need, and forks a process for each.

A fresh interpreter spends 3 s of CPU time on imports before a simulation; a fork of one that has made them spends
0.1 s. That process is ``python -m fieldcraft.flows.jobs.fork_server``. It has one thread, imports modules of fieldcraft
and the libraries that those name, and never a plug-in: the process it forks imports a plug-in as its file is then.

Its standard input is a socket. A request is a line of JSON with the job's folder, the environment and the working
folder, and comes with the open log; the answer is a line with the process that was forked, which has a session of its
own. It ends when the socket closes, so with the process that started it; what it forked goes on.
"""

import ast
import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fieldcraft.storage.processes import boot, start_time

_BASE = (
    "fieldcraft.flows.jobs.job_folder",
    "fieldcraft.flows.jobs.programs",
    "fieldcraft.flows.jobs.simulation",
    "fieldcraft.flows.machinery.random_streams",
    "fieldcraft.flows.spec.registry",
    "fieldcraft.flows.spec.source_files",
    "dask.array",  # xarray asks for it as it makes a dataset
    "xarray",
    "zarr",
)
ANSWER_S = 30.0
"""A server that has not answered by then is given up."""
# What a process asks of its environment when it is asked; all else may have been read while something was imported.
_ASKED_LATE = ("FIELDCRAFT_", "PREFECT_", "PYTEST_")


class NoFork(Exception):
    """The server forked nothing: it could not start, has ended or does not answer. The message says which."""


def begun(link: socket.socket, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """The server's process, which answers on ``link``."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __spec__.name],
        stdin=link,
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
            answer = _line(self.link)
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
    return {name: value for name, value in environment.items() if not name.startswith(_ASKED_LATE)}


def _line(link: socket.socket, begun: bytes = b"") -> bytes:
    """What comes until the end of a line; empty where the other side has gone."""
    while not begun.endswith(b"\n"):
        more = link.recv(1 << 16)
        if not more:
            return b""
        begun += more
    return begun


def _serve(link: socket.socket) -> None:
    """Answer until the socket closes."""
    for name in _BASE:
        importlib.import_module(name)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready, _, _ = select.select([link, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        if link in ready:
            begun, (*logs,), _, _ = socket.recv_fds(link, 1 << 16, 1)
            asked = _line(link, begun) if begun else b""
            if not asked:
                return
            request = json.loads(asked)
            _import(Path(request["folder"]))
            gc.freeze()  # a collection in the processes to come leaves these pages shared
            answer = _fork(request, logs[0], (woken, wake))
            os.close(logs[0])
            link.sendall(json.dumps(answer).encode() + b"\n")


def _fork(request: Mapping[str, Any], log: int, ours: tuple[int, int]) -> dict[str, Any]:
    """The process that runs a job, once it has a session of its own, in which it can be killed with all it starts.

    It closes the descriptors that are ``ours``.
    """
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (told, tell, *ours):
            os.close(file)
        os._exit(_run(request, log))
    os.close(tell)
    os.read(told, 1)  # until the other end is closed
    os.close(told)
    return {"pid": pid, "started": start_time(pid), "boot": boot()}  # a zombie at worst: none is reaped meanwhile


def _import(folder: Path) -> None:
    """Import the built-in kinds of a job's request, with all that their files import anywhere."""
    from fieldcraft.flows.jobs.job_folder import JobFolder
    from fieldcraft.flows.spec.registry import PACKAGES, folder_of

    with suppress(Exception):  # what is wrong with it, the job finds out
        request = JobFolder(folder).request
        for group, part in (("problems", "problem"), ("simulators", "simulator")):
            kind = str((request.get(part) or {}).get("kind"))
            if kind in {file.stem for file in folder_of(group).glob("[a-z]*.py")}:
                _import_deep(f"{PACKAGES[group]}.{kind}")


def _import_deep(name: str) -> None:
    if name in sys.modules:
        return
    file = importlib.import_module(name).__file__
    assert file is not None  # a kind is a file
    for node in ast.walk(ast.parse(Path(file).read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            importlib.import_module(node.module)
        elif isinstance(node, ast.Import):
            for each in node.names:
                importlib.import_module(each.name)


def _run(request: Mapping[str, Any], log: int) -> int:
    """In the forked process: be what a fresh interpreter would have been, and run the job."""
    import numpy as np

    from fieldcraft.flows.jobs import simulation

    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, log, log)):
            os.dup2(file, number)  # the first closes the socket here
        os.close(nothing)
        os.close(log)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        np.random.seed()  # or all simulations that use numpy's own generator would draw the same
        sys.argv = [simulation.__file__, request["folder"]]
        return simulation.main(Path(request["folder"]))
    except BaseException:  # there is no interpreter around this that would print it
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    _serve(socket.socket(fileno=0))
