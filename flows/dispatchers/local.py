"""Simulations on this machine, each in a process group of its own that outlives whoever started it.

WORK/KEY/request.json   what to run, written before anything is started
WORK/KEY/started.json   made by the child, once: whoever makes it runs the job, any other child leaves
WORK/KEY/result         the fields, there whole or not at all (renamed)
WORK/KEY/outcome.json   why there is no result, in the child's own words
WORK/KEY/log.txt        what the simulator printed
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from flows.dispatcher import Failed, Finished, Handle, Job, Lost, Outcome, Place, Running
from flows.settings import without_secrets
from storage.fields import load_group
from storage.processes import boot, end_group, is_alive, start_time
from storage.staging import sync

if TYPE_CHECKING:
    import xarray as xr

_POLL_S = 0.02


@dataclass(frozen=True)
class Local:
    """Runs jobs as child processes of this machine.

    Args:
        place: The campaign; a job over its wall time is killed with its process group.
    """

    place: Place
    by_people: ClassVar[bool] = False
    _children: ClassVar[dict[int, "subprocess.Popen[bytes]"]] = {}  # kept to be reaped

    @property
    def folder(self) -> Path:
        """Scratch folder of the campaign."""
        return self.place.folder

    @property
    def wall_time_s(self) -> float:
        """Limit of one job in seconds."""
        return self.place.wall_time_s

    def submit(self, job: Job) -> Handle:
        """Write the request and start a child; the child that makes ``started.json`` is the one that runs it."""
        place = self.folder / job.key
        place.mkdir(parents=True, exist_ok=True)
        for folder in (place, self.folder, self.folder.parent):
            sync(folder)  # after a power cut too, a job that began must be known to have begun
        write_json(place / "request.json", {**job.request, "key": job.key, "wall_time_s": self.wall_time_s})
        with (place / "log.txt").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "flows.simulation", str(place)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without_secrets(os.environ),
                start_new_session=True,
            )
        self._children[child.pid] = child
        return {"key": job.key, "pid": child.pid, "started": start_time(child.pid), "boot": boot()}

    def find(self, key: str) -> Handle | None:
        """The handle of a job whose child has begun; None when none has, and submitting again is then safe."""
        started = read_json(self.folder / key / "started.json")
        return {"key": key, **{name: started[name] for name in ("pid", "started", "boot")}} if started else None

    def look(self, handle: Handle) -> Outcome:
        """Judge by what the child left behind, then by whether it lives."""
        place = self.folder / handle["key"]
        started = read_json(place / "started.json")
        process = started or handle
        alive = self._lives(process)
        # Read after the look at the process: what it left behind is then complete.
        if (place / "result").is_dir():
            began = read_json(place / "started.json")["at"]
            return Finished(max(0.0, (place / "result").stat().st_mtime - began))
        if outcome := read_json(place / "outcome.json"):
            return _said(outcome)
        if alive:
            return Running()
        if barred := started.get("barred"):
            return Failed("transient", barred, cost=0.0, seconds=0.0)
        return Lost(f"process {process['pid']} ended without a result or a word")

    def poll(self, handle: Handle) -> Outcome:
        """As ``look``, but a job whose process died before it began is barred from beginning, and has failed.

        What a killed supervisor left running is killed too: nobody limits its time, and it may still write a result.
        """
        outcome = self.look(handle)
        if not isinstance(outcome, Lost):
            return outcome
        place = self.folder / handle["key"]
        started = read_json(place / "started.json")
        if not started:
            return self._never_began(place, handle)
        if self._lives(started):  # it began between the look and now
            return Running()
        return Running() if started["boot"] == boot() and end_group(started["pid"]) else outcome

    def _never_began(self, place: Path, handle: Handle) -> Outcome:
        reason = f"process {handle['pid']} ended before it began: {_last_line(place / 'log.txt')}"
        try:  # whoever makes this file runs the job: from here on no child can
            write_json(place / "started.json", {**handle, "at": time.time(), "barred": reason}, once=True)
        except FileExistsError:
            return Running()
        return Failed("transient", reason, cost=0.0, seconds=0.0)

    def _lives(self, process: Handle) -> bool:
        if process["boot"] != boot():
            return False
        child = self._children.get(process["pid"])
        if child is not None and child.poll() is not None:
            del self._children[process["pid"]]
            return False
        return is_alive(process["pid"], process["started"])

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields the child wrote, checksums verified."""
        return load_group(self.folder / handle["key"] / "result")

    def cancel(self, handle: Handle) -> None:
        """Kill the job's process group, also one that has not begun."""
        process = read_json(self.folder / handle["key"] / "started.json") or handle
        if self._lives(process):
            os.killpg(process["pid"], signal.SIGKILL)

    def forget(self, key: str) -> None:
        """Delete the job's folder."""
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return when one of the jobs has ended, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while (
            handles
            and time.monotonic() < deadline
            and all(isinstance(self.poll(handle), Running) for handle in handles)
        ):
            time.sleep(_POLL_S)


def _said(outcome: dict[str, Any]) -> Outcome:
    """What a job left as its last word."""
    if outcome["kind"] == "lost":
        return Lost(outcome["reason"])
    return Failed(outcome["kind"], outcome["reason"], outcome.get("cost"), outcome.get("seconds"))


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it printed nothing")


def write_json(path: Path, data: dict[str, Any], *, once: bool = False) -> None:
    """Write a file whole or not at all; with ``once``, refuse to replace one.

    Raises:
        FileExistsError: ``once`` and the file is there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        if once:
            os.link(draft, path)
        else:
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping that ``write_json`` wrote; empty when there is none."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return data
