"""A process that has imported what simulations need, and forks a process for each.

A fresh interpreter spends 3 s of CPU time on imports before a simulation; a fork of one that has made them spends
0.1 s. That process is ``python -m fieldcraft.flows.jobs.fork_server``. It has one thread, imports modules of fieldcraft
and the libraries that those name, and never a plug-in: the process it forks imports a plug-in as its file is then.

It ends, too, as soon as a file under ``physics`` is another than it imported: approvals name files, and what runs is
what they say. Whoever asks then starts another one.

Its standard input is a socket. A request is a line of JSON with the job's folder, the environment and the working
folder, and comes with the open log; the answer is a line with the process that was forked, which has a session of its
own. It ends when the socket closes, so with the process that started it; what it forked goes on.
"""

import ast
import gc
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fieldcraft.flows.jobs.forks import line_of
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
_PHYSICS = Path(__file__).resolve().parents[2] / "physics"


def _serve(link: socket.socket) -> None:
    """Answer until the socket closes or a file has changed."""
    held = _files()  # before any of them is imported
    for name in _BASE:
        importlib.import_module(name)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready, _, _ = select.select([link.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        if link.fileno() in ready:
            begun, (*logs,), _, _ = socket.recv_fds(link, 1 << 16, 1)
            asked = line_of(link, begun) if begun else b""
            if not asked or _files() != held:
                return
            request = json.loads(asked)
            _import(Path(request["folder"]))
            gc.freeze()  # a collection in the processes to come leaves these pages shared
            answer = _fork(request, logs[0], (woken, wake))
            os.close(logs[0])
            link.sendall(json.dumps(answer).encode() + b"\n")


def _files() -> dict[Path, bytes]:
    """SHA-256 of every file that an approval of fieldcraft's own problems and simulators may name."""
    return {file: hashlib.sha256(file.read_bytes()).digest() for file in _PHYSICS.rglob("*.py")}


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
    """Import the built-in kinds of a job's request, with all that their files import anywhere, and read those files."""
    from fieldcraft.flows.jobs.job_folder import JobFolder
    from fieldcraft.flows.spec.registry import PACKAGES, folder_of
    from fieldcraft.flows.spec.source_files import Sources

    with suppress(Exception):  # what is wrong with it, the job finds out
        request, ours = JobFolder(folder).request, dict[str, str]()
        for group, part in (("problems", "problem"), ("simulators", "simulator")):
            kind = str((request.get(part) or {}).get("kind"))
            if kind in {file.stem for file in folder_of(group).glob("[a-z]*.py")}:
                _import_deep(f"{PACKAGES[group]}.{kind}")
                ours[group] = kind
        Sources(()).of(ours, {})  # each job compares their digests with what was approved


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
