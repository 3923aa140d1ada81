"""The folder of one job, through which the process that runs it reports to the pass that sent it.

WORK/KEY/request.json   the request, written before anything is started
WORK/KEY/started.json   created once: the process that creates it runs the job, any other exits
WORK/KEY/result         the fields, written atomically (renamed)
WORK/KEY/outcome.json   the reason why there is no result, in the job's own words
WORK/KEY/recalled.json  asks the job to end, on whatever machine it runs
WORK/KEY/log.txt        the simulator's output

Dispatchers differ in who starts the process (``flows.jobs.simulation``) and in how they learn whether it is alive. All
of them read the files here in the same way, and ``started.json`` makes a key run once, however often it was started.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldcraft.flows.jobs import forks
from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Lost
from fieldcraft.flows.settings import without_secrets
from fieldcraft.storage.field_store.staging import sync
from fieldcraft.storage.fields import load_group, save_group
from fieldcraft.storage.processes import THREADS, boot, start_time
from fieldcraft.storage.records import FailureKind

if TYPE_CHECKING:
    import xarray as xr

_LAST_BYTES = 2000  # of a log that are read for its last words
_interpreters: list["subprocess.Popen[bytes]"] = []  # kept to be reaped


@dataclass(frozen=True)
class JobFolder:
    """The files of one job.

    Args:
        path: The folder, which bears the job's key.
    """

    path: Path

    @property
    def request(self) -> dict[str, Any]:
        """The request; empty when none was written."""
        return read_json(self.path / "request.json")

    @property
    def started(self) -> dict[str, Any]:
        """The process that runs the job, and its start (``at``, in seconds since 1970); empty before it has begun."""
        return read_json(self.path / "started.json")

    @property
    def result(self) -> Path:
        """Path of the fields, once they are written."""
        return self.path / "result"

    @property
    def log(self) -> Path:
        """Path of the simulator's output."""
        return self.path / "log.txt"

    def prepare(self, request: Mapping[str, Any]) -> None:
        """Make the folder and write the request into it; repeating it with the same request changes nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        for folder in (self.path, self.path.parent, self.path.parent.parent):
            sync(folder)  # after a power cut too, a job that began must be known to have begun
        write_json(self.path / "request.json", dict(request))

    def start(self, threads: int | None = None) -> dict[str, Any]:
        """Start a process in a group of its own, without secrets; it exits at once if another has the job.

        It is forked by the server of ``flows.jobs.fork_server``, or a new interpreter where that forks none: the job
        begins once, whichever comes to it.

        Args:
            threads: Threads of the libraries that it uses, where the environment says nothing; None for their own.

        Returns:
            The process, as ``process_of`` has it.
        """
        shared = {} if threads is None else dict.fromkeys(THREADS, str(threads))
        environment = {**shared, **without_secrets(os.environ)}
        with self.log.open("ab") as log:
            try:
                return forks.forked(self.path, environment, log.fileno())
            except forks.NoFork:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "fieldcraft.flows.jobs.simulation", str(self.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        process = process_of(child.pid)  # before it is reaped
        _interpreters[:] = [each for each in (*_interpreters, child) if each.poll() is None]
        return process

    def begin(self, *, flush: bool = True) -> bool:
        """Claim the job for this process; False when another process has it, or when it was barred.

        Args:
            flush: True to make the claim survive a power cut.
        """
        return self._take({**process_of(os.getpid()), "host": socket.gethostname()}, flush=flush)

    def bar(self, process: Mapping[str, Any], reason: str) -> bool:
        """Bar the job from beginning, which makes it fail as transient; False when it has already begun.

        Args:
            process: The process that should have begun it.
            reason: Reason why it never will.
        """
        return self._take({**process, "barred": reason})

    def _take(self, process: Mapping[str, Any], *, flush: bool = True) -> bool:
        try:  # whoever makes this file runs the job: from here on nobody else can
            write_json(self.path / "started.json", {**process, "at": time.time()}, once=True, flush=flush)
        except FileExistsError:
            return False
        return True

    def beat(self) -> None:
        """Write a heartbeat, for machines that cannot see this process."""
        os.utime(self.path / "started.json")

    @property
    def heard(self) -> float:
        """Time of the job's last heartbeat, in seconds since 1970.

        Raises:
            FileNotFoundError: nobody has begun it.
        """
        return (self.path / "started.json").stat().st_mtime

    def recall(self) -> None:
        """Ask the job to end, on whatever machine it runs."""
        write_json(self.path / "recalled.json", {"at": time.time()})

    @property
    def recalled(self) -> bool:
        """True if the job has been asked to end."""
        return (self.path / "recalled.json").exists()

    def save(self, fields: "xr.Dataset", seconds: float) -> None:
        """Write the result, atomically, with its wall time in seconds (kept independently of the present clock)."""
        save_group(self.result, fields, written=self.started["at"] + seconds)

    def load(self) -> "xr.Dataset":
        """The result, checksums verified.

        Raises:
            storage.fields.FieldDamaged: it is not there, truncated or altered.
        """
        return load_group(self.result)

    def fail(self, kind: FailureKind, reason: str, seconds: float, cost: float | None = None) -> None:
        """Record why there is no result, after how many seconds, and the cost in budget units where it is known."""
        known = {} if cost is None else {"cost": cost}
        self._say({"kind": kind, "reason": reason, "seconds": round(seconds, 3), **known})

    def lose(self, reason: str) -> None:
        """Record that the job ended without an outcome of its own."""
        self._say({"kind": "lost", "reason": reason})

    def _say(self, outcome: dict[str, Any]) -> None:
        write_json(self.path / "outcome.json", outcome)

    def verdict(self) -> Finished | Failed | Lost | None:
        """The outcome of the job, from the files that it left; None while there is none.

        A caller that checks whether the process is alive must do so first and call this afterwards: only the files of a
        process that has ended are complete.
        """
        if self.result.is_dir():
            return Finished(max(0.0, self.result.stat().st_mtime - self.started["at"]))
        if outcome := read_json(self.path / "outcome.json"):
            if outcome["kind"] == "lost":
                return Lost(outcome["reason"])
            return Failed(outcome["kind"], outcome["reason"], outcome.get("cost"), outcome.get("seconds"))
        if barred := self.started.get("barred"):
            return Failed("transient", barred, cost=0.0, seconds=0.0)
        return None

    def last_line(self) -> str:
        """The last non-blank line of the log; at most its last 2000 bytes are read."""
        lines = _end(self.log).decode(errors="replace").splitlines() if self.log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")

    def delete(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _end(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - _LAST_BYTES))
        return opened.read(_LAST_BYTES)


def process_of(pid: int) -> dict[str, Any]:
    """A process of this machine, with its start time and boot, which tell it from a later one with the same number.

    Raises:
        psutil.NoSuchProcess: there is none of that number.
    """
    return {"pid": pid, "started": start_time(pid), "boot": boot()}


def write_json(path: Path, data: dict[str, Any], *, once: bool = False, flush: bool = True) -> None:
    """Write a file atomically, to the disk with ``flush``; with ``once``, refuse to replace an existing file.

    Raises:
        FileExistsError: ``once`` and the file is there.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # of its own, among machines and threads
    with draft.open("w") as file:
        json.dump(data, file)
        file.flush()
        if flush:
            os.fsync(file.fileno())
    try:
        if once:
            os.link(draft, path)
        else:
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if flush:
        sync(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping that ``write_json`` wrote; empty when there is none."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return data
