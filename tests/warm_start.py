"""Python processes that need not import: forked from one that has imported what a campaign needs.

``python warm_start.py`` imports, and then forks for whoever asks: a process of its own in a session of its own, with
the words, environment, folder and open files that it is given, which ends as any other Python does. It costs 0.1 s of
CPU time, where a fresh interpreter takes 2 s for the server of simulations and 4 s for a pass. Prefect reads the
environment as it is imported, so each process imports it itself, but for the flow runs of one site
(``scenarios/prefect_site.py``) and what begins in the environment of the fixture ``prefect_api``: their servers are
begun in it. Of what MLflow reads as it is imported fieldcraft has values of its own, which nobody changes here.
"""

import atexit
import contextlib
import importlib
import json
import os
import runpy
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import large_pages

from fieldcraft.flows.jobs import forks
from fieldcraft.flows.machinery.collecting import as_usual, seldom
from fieldcraft.flows.spec.source_files import Sources
from fieldcraft.flows.views import export
from fieldcraft.storage.trackers.runs import DEFAULTS

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = (
    "fieldcraft.flows.jobs.programs",
    "fieldcraft.flows.run",
    "fieldcraft.flows.spec.contracts",
    "fieldcraft.flows.steps.one_pass",
    "fieldcraft.flows.wiring.create",
    "fieldcraft.models.algorithm",
    "fieldcraft.models.surrogates.exact_gp",
    "fieldcraft.storage.fields",
    "fieldcraft.storage.ledgers.sqlite",
    "botorch.optim.batched_lbfgs_b",
    "dask.array",
    "mlflow.store.tracking.sqlalchemy_store",
    "pandas",
    "rich.live",
    "scipy.optimize",
    "scipy.stats",
    "zarr",
)
_AT_ONCE = 1 << 16  # bytes
NAMED = "WARM_START"  # in the environment of what was begun here: the socket, to begin more


class Warm:
    """A process that was begun, as ``subprocess.Popen`` shows one."""

    def __init__(self, words: list[str], files: list[int], environment: Mapping[str, str], folder: str) -> None:
        """Begin ``python WORDS``, which are ``-m MODULE ...`` or ``-c CODE ...``; at the server that they name."""
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(f"\0{environment.get(NAMED) or os.environ.get(NAMED) or served()}")
        request = {"words": words, "environment": dict(environment), "folder": folder}
        socket.send_fds(self.link, [json.dumps(request).encode() + b"\n"], files)
        self.answers = self.link.makefile("r")
        self.pid = int(self.answers.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, negative for a signal."""
        if self.returncode is None:
            if not select.select([self.link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self.returncode = int(self.answers.readline())
            self.answers.close()
            self.link.close()
        return self.returncode

    def kill(self) -> None:
        """End it at once; no error where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """The same, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode


class Command(Warm):
    """A process that was begun, what it prints in a pipe and what it complains of in a file."""

    def __init__(self, words: list[str], environment: Mapping[str, str], folder: str | None = None) -> None:
        """Begin ``python WORDS`` in a folder, by default the present one."""
        out, told = os.pipe()
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(os.memfd_create("complaints"), "w+")
        with open(os.devnull) as nothing:
            super().__init__(words, [nothing.fileno(), told, self.stderr.fileno()], environment, folder or os.getcwd())
        os.close(told)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What is left of what it prints, and all that it complained of, once it has ended."""
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.append(self.stdout.read()), daemon=True)
        reader.start()
        self.wait(timeout)
        reader.join()
        self.stderr.seek(0)
        with self.stdout, self.stderr:
            return said[0], self.stderr.read()

    def send_signal(self, number: int) -> None:
        """Send it a signal; no error where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Exporter(Warm):
    """What ``views.export.begun`` begins, from here."""

    def __init__(self, words: list[str]) -> None:
        """Begin ``python WORDS`` in the environment and folder of this process."""
        given, pipe = os.pipe()
        self.stdin, self.stderr = os.fdopen(pipe, "w"), os.fdopen(os.memfd_create("complaints"), "w+")
        with open(os.devnull, "w") as nothing:
            super().__init__(words, [given, nothing.fileno(), self.stderr.fileno()], os.environ, os.getcwd())
        os.close(given)

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """All that it complained of, once it has been told to end and has."""
        self.stdin.close()
        self.wait(timeout)
        self.stderr.seek(0)
        with self.stderr:
            return None, self.stderr.read()


class Answering(Warm):
    """What ``predictions.process.begun`` begins, from here."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Begin it in the folder of this process."""
        (asked, ask), (answer, answered) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(ask, "wb"), os.fdopen(answer, "rb")
        with open(os.devnull, "w") as nothing:
            files = [asked, answered, nothing.fileno()]
            super().__init__(["-m", "fieldcraft.flows.predictions.process"], files, environment, os.getcwd())
        for given in (asked, answered):
            os.close(given)


def begun(
    words: list[str], environment: Mapping[str, str], folder: str | None = None
) -> "Command | subprocess.Popen[str]":
    """``python WORDS`` with its output in pipes.

    One whose environment changes how a program is loaded gets an interpreter of its own.
    """
    if "LD_PRELOAD" not in environment:
        return Command(words, environment, folder)
    words = [sys.executable, "-P", *words]
    return subprocess.Popen(
        words, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(
    words: list[str], environment: Mapping[str, str], seconds: float, folder: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """``python WORDS`` to its end, as ``subprocess.run`` does it; killed where it takes longer."""
    process = begun(words, environment, folder)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(words, process.wait(), out, err)


def server(link: socket.socket, environment: Mapping[str, str]) -> Warm:
    """What ``forks.begun`` does, from here."""
    with open(os.devnull, "r+") as nothing:
        files = [link.fileno(), nothing.fileno(), nothing.fileno()]
        return Warm(["-m", "fieldcraft.flows.jobs.fork_server"], files, environment, os.getcwd())


@cache
def served() -> str:
    """The socket of this process's own server, which ends with it."""
    server = subprocess.Popen(
        [sys.executable, "-P", __file__],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def end() -> None:
        server.communicate()

    atexit.register(end)
    atexit.register(forks._close)  # runs before the former: what was begun here ends while the server can tell of it
    return server.stdout.readline().strip()


@contextlib.contextmanager
def serving(environment: Mapping[str, str], *more: str) -> Iterator[str]:
    """The socket of another server within the block, which has imported more modules in an environment."""
    (asked, ask), (answer, answered) = os.pipe(), os.pipe()
    with os.fdopen(answer) as answers, os.fdopen(ask, "w"):  # it ends as the latter is closed
        server = Warm(["-m", "warm_start", *more], [asked, answered, 2], environment, "/")
        for given in (asked, answered):
            os.close(given)
        yield answers.readline().strip()
    server.wait()


def _serve() -> dict[str, Any] | None:
    """Answer until standard input ends; in a child that is to run something, what that is."""
    os.environ[NAMED] = name = f"fieldcraft-{os.getpid()}-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen(64)
        print(name, flush=True)  # who asks already waits
        seldom()
        os.environ.update(DEFAULTS)
        for module in (*IMPORTED, *sys.argv[1:]):
            importlib.import_module(module)
        Sources(()).of({"problems": "heat", "simulators": "heat", "dispatchers": "local"}, {})  # most of what is ours
        as_usual()
        large_pages.gathered()
        links: list[socket.socket] = []  # of those that have yet to say what they want
        begun: dict[int, tuple[int, socket.socket]] = {}  # by a file that is ready once it has ended: it, who waits
        while True:
            ready, _, _ = select.select([0, server, *links, *begun], [], [])
            for file in begun.keys() & set(ready):
                _ended(file, *begun.pop(file))
            if 0 in ready:
                return None
            if server in ready:
                links.append(server.accept()[0])
            for link in set(links) & set(ready):
                links.remove(link)
                if (request := _forked(link, begun)) is not None:
                    for other in (server, *links):
                        other.close()
                    return request


def _forked(link: socket.socket, begun: dict[int, tuple[int, socket.socket]]) -> dict[str, Any] | None:
    """Fork the process that is asked for and tell its number; in that process, what it is to run."""
    text, files, _, _ = socket.recv_fds(link, _AT_ONCE, 3)
    while not text.endswith(b"\n"):
        if not (more := link.recv(_AT_ONCE)):  # whoever asked has ended
            for file in files:
                os.close(file)
            link.close()
            return None
        text += more
    request: dict[str, Any] = json.loads(text)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        os.read(told, 1)  # its number is told before it does anything
        os.close(told)
        for file, (_, other) in begun.items():
            os.close(file)
            other.close()
        link.close()
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return request
    for file in (*files, told):
        os.close(file)
    begun[os.pidfd_open(child)] = child, link
    with contextlib.suppress(OSError):  # whoever asked has ended
        link.sendall(f"{child}\n".encode())
    os.close(tell)
    return None


def _ended(file: int, child: int, link: socket.socket) -> None:
    """Tell the end of a process to whoever began it."""
    os.close(file)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError), link:
        link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _run(request: dict[str, Any]) -> int:
    """Run it as Python's own main does; the exit status."""
    mine = os.environ[NAMED]
    os.environ.clear()
    os.environ.update({**request["environment"], NAMED: mine})
    forks.begun = server  # type: ignore[assignment]
    export.begun = Exporter  # type: ignore[assignment]
    os.chdir(request["folder"])
    kind, what, *words = request["words"]
    try:
        if kind == "-m":
            sys.argv = [what, *words]
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.argv = ["-c", *words]
            exec(what, {"__name__": "__main__"})
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> None:
    """As an interpreter ends, but that it leaves it to the kernel to take all modules down, which takes it seconds."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    asked = _serve()
    if asked is not None:
        _end(_run(asked))
