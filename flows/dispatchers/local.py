"""Simulations on this machine, each in a process group of its own that outlives the process that started it.

A job's request and its outcome are files in its folder (``flows.jobs.job_folder``).
"""

import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fieldcraft.flows.jobs.dispatcher import Failed, Handle, Job, Lost, Outcome, Place, Running
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.flows.jobs.remote_jobs import is_heard
from fieldcraft.storage.processes import boot, cores, end_group, is_alive, kill_group

if TYPE_CHECKING:
    import xarray as xr

_POLL_S = 0.02


@dataclass(frozen=True)
class Local:
    """Runs jobs as child processes of this machine.

    The jobs that may run at once share the cores: each has as many threads as its share, unless the environment says
    how many. More would wait for each other.

    Args:
        place: The campaign; a job over its wall time is killed with its process group.
    """

    place: Place
    by_people: ClassVar[bool] = False

    @property
    def folder(self) -> Path:
        """Scratch folder of the campaign."""
        return self.place.folder

    @property
    def wall_time_s(self) -> float:
        """Limit of one job in seconds."""
        return self.place.wall_time_s

    def _of(self, key: str) -> JobFolder:
        return JobFolder(self.folder / key)

    def submit(self, job: Job) -> Handle:
        """Write the request and start a process; the one that creates ``started.json`` runs the job."""
        folder = self._of(job.key)
        folder.prepare({**job.request, "key": job.key, "wall_time_s": self.wall_time_s})
        return {"key": job.key, **folder.start(max(1, cores() // self.place.parallel))}

    def find(self, key: str) -> Handle | None:
        """The handle of a job whose child has begun; None when none has, and submitting again is then safe."""
        started = self._of(key).started
        return {"key": key, **{name: started[name] for name in ("pid", "started", "boot")}} if started else None

    def look(self, handle: Handle) -> Outcome:
        """Return the state of the job: by the files that the child left, then by whether its process is alive."""
        folder = self._of(handle["key"])
        process = folder.started or handle
        alive = _lives(folder, process)  # before the folder is read: what a dead process left behind is complete
        if (verdict := folder.verdict()) is not None:
            return verdict
        return Running() if alive else Lost(f"process {process['pid']} ended without a result or a word")

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does; a job whose process died before it began is barred and has failed.

        Processes that a killed supervisor left running are killed too: nothing limits their time, and they may still
        write a result.
        """
        outcome = self.look(handle)
        if not isinstance(outcome, Lost):
            return outcome
        folder = self._of(handle["key"])
        started = folder.started
        if not started:
            reason = f"process {handle['pid']} ended before it began: {folder.last_line()}"
            barred = folder.bar(handle, reason)
            return Failed("transient", reason, cost=0.0, seconds=0.0) if barred else Running()
        if _is_far(started):
            return self.look(handle)
        if _lives(folder, started):  # it began between the look and now
            return Running()
        return Running() if started["boot"] == boot() and end_group(started["pid"]) else outcome

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields that the child wrote, checksums verified."""
        return self._of(handle["key"]).load()

    def cancel(self, handle: Handle) -> None:
        """Kill the job's process group, also before the job has begun or after its supervisor was killed."""
        folder = self._of(handle["key"])
        process = folder.started or handle
        if _is_far(process):
            folder.recall()
        elif _lives(folder, process):
            kill_group(process["pid"])
        elif folder.verdict() is None and process["boot"] == boot():
            end_group(process["pid"])

    def forget(self, key: str) -> None:
        """Delete the job's folder."""
        self._of(key).delete()

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return when one of the jobs has ended, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while (
            handles
            and time.monotonic() < deadline
            and all(isinstance(self.poll(handle), Running) for handle in handles)
        ):
            time.sleep(_POLL_S)


def _lives(folder: JobFolder, process: Handle) -> bool:
    """True if the process of a job is alive; a pass of another machine that shares the folder may have started it."""
    if _is_far(process):
        return is_heard(folder)
    return process["boot"] == boot() and is_alive(process["pid"], process["started"])


def _is_far(process: Handle) -> bool:
    here = socket.gethostname()
    return bool(process.get("host", here) != here)
