"""Jobs that other machines run, such as Dask's workers or Prefect's: the common part of their dispatchers.

A scheduler gives the jobs to its workers. A job's folder (``flows.jobs.job_folder``) is seen by the passes and by the
workers under one path, and its files decide: ``started.json`` makes a key run once, however often the scheduler repeats
it, and a result counts whichever worker wrote it. So the scheduler is asked only about jobs that have not begun.
"""

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.jobs.dispatcher import CannotTell, Failed, Handle, Job, Lost, Outcome, Place, Running
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.processes import boot, end_group, is_alive, kill_group

SILENT_S = 120.0
"""A job of another machine that gave no sign of life for so long is taken for dead; it gives one every two seconds."""
_POLL_S = 0.1


@dataclass(frozen=True)
class RemoteJobs:
    """The jobs of one campaign that a scheduler runs.

    Args:
        place: The campaign and the folder of its jobs.
        unbegun: Called with the ticket of a job that has not begun: returns the reason why it never will, or Running
            while it may. Raises ``CannotTell`` where the scheduler does not answer.
    """

    place: Place
    unbegun: Callable[[str], str | Running]

    def of(self, key: str) -> JobFolder:
        """The job folder of a key."""
        return JobFolder(self.place.folder / key)

    def admit(self, job: Job) -> str:
        """Write the request of a job.

        Returns:
            The ticket: the scheduler's name for the job, the key with a random part. It is drawn once, since the
            scheduler may serve several stores and may remember the keys of one that was deleted.
        """
        folder = self.of(job.key)
        ticket = str(folder.request.get("ticket") or f"{job.key}-{secrets.token_hex(6)}")
        folder.prepare({**job.request, "key": job.key, "wall_time_s": self.place.wall_time_s, "ticket": ticket})
        commit_point("remote.request.after")
        return ticket

    def find(self, key: str) -> Handle | None:
        """The handle of a job whose request was written; ``poll`` finds out whether the scheduler has it."""
        return {"key": key} if self.of(key).request else None

    def look(self, handle: Handle) -> Outcome:
        """Return the state of the job: by its files, then by its process; before it begins, by asking the scheduler.

        Raises:
            CannotTell: it has not begun and the scheduler does not answer, or its folder is not there.
        """
        folder = self.of(handle["key"])
        if not folder.started:
            told = self.unbegun(_ticket(folder))
            if not folder.started:
                return Failed("transient", told, cost=0.0, seconds=0.0) if isinstance(told, str) else told
        alive = lives(folder)  # before the folder is read: what a dead process left behind is complete
        if (verdict := folder.verdict()) is not None:
            return verdict
        if alive:
            return Running()
        started = folder.started
        process = f"process {started['pid']} on {started.get('host', 'another machine')}"
        return Lost(f"{process} ended without a result or a word")

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does, but bar a job that the scheduler will never begin.

        Processes that a killed supervisor left running on this machine are killed too: nothing limits their time.
        """
        folder, outcome = self.of(handle["key"]), self.look(handle)
        if isinstance(outcome, Failed) and not folder.started:
            return outcome if folder.bar({}, outcome.reason) else Running()
        if isinstance(outcome, Lost) and _is_here(folder.started) and end_group(folder.started["pid"]):
            return Running()
        return outcome

    def cancel(self, handle: Handle) -> bool:
        """Stop the job and everything it started, on any machine. True if it had not begun and never will."""
        folder = self.of(handle["key"])
        if not folder.request or folder.verdict() is not None:
            return False
        if folder.bar({}, "it was cancelled before it began"):
            return True
        if not _is_here(folder.started):
            folder.recall()
        elif lives(folder):
            kill_group(folder.started["pid"])
        else:  # its supervisor was killed before it
            end_group(folder.started["pid"])
        return False

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return when one of the jobs has ended, by their folders, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        folders = [self.of(handle["key"]) for handle in handles]
        while folders and time.monotonic() < deadline and not any(_has_ended(folder) for folder in folders):
            time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))


def run_job(folder: str) -> str:
    """Run a job on a worker of a scheduler, in a process group of its own, and wait for its end.

    The process outlives the worker. If another worker has begun the job, this returns at once.

    Args:
        folder: The job's folder.

    Returns:
        The outcome, in words.

    Raises:
        FieldcraftError: the worker does not see the folder, or the process ended before it began.
    """
    job = JobFolder(Path(folder))
    if not job.request:
        raise FieldcraftError(
            f"No request.json in {folder}: a worker must see the campaigns' work folder under the path by which the "
            "passes know it. Mount it there."
        )
    if not job.started:
        child = job.start()
        while is_alive(child["pid"], child["started"]):
            time.sleep(_POLL_S)
        _bar_unbegun(job, child["pid"])
    return f"{job.path.name}: {_ending(job)}"


def _bar_unbegun(job: JobFolder, pid: int) -> None:
    """Bar a job whose process has ended, if it had not begun.

    Raises:
        FieldcraftError: it had not.
    """
    try:
        reason = f"process {pid} on {socket.gethostname()} ended before it began: {job.last_line()}"
        if job.bar({}, reason):
            raise FieldcraftError(f"{reason}. Mend the worker's installation.")
    except FileNotFoundError:  # a pass has taken the result and deleted the folder
        return


def _ending(job: JobFolder) -> str:
    """The outcome of a job in words; a pass that takes it deletes the folder at any moment."""
    with suppress(FileNotFoundError, KeyError):  # of files that were there at the first look
        if outcome := job.verdict():
            return str(outcome)
    if not job.started:
        return "its folder is gone: a pass took its outcome, or the disk is away"
    return "another process runs it" if lives(job) else "its process was killed"


def lives(folder: JobFolder) -> bool:
    """True if the process that began a job is alive.

    For a process of another machine: true if its last heartbeat is less than ``SILENT_S`` old.
    """
    started = folder.started
    if _is_here(started):
        return is_alive(started["pid"], started["started"])
    return is_heard(folder)


def is_heard(folder: JobFolder) -> bool:
    """True if the last heartbeat of a job is less than ``SILENT_S`` old."""
    with suppress(FileNotFoundError):
        return time.time() - folder.heard < SILENT_S
    return False


def _has_ended(folder: JobFolder) -> bool:
    return bool(folder.started) and (not lives(folder) or folder.verdict() is not None)


def _is_here(started: dict[str, Any]) -> bool:
    # The host too: containers of one machine share its boot and not its processes.
    return (started.get("boot"), started.get("host")) == (boot(), socket.gethostname())


def _ticket(folder: JobFolder) -> str:
    request = folder.request
    if not request:
        raise CannotTell(f"{folder.path} holds no request.json: its disk is away, or somebody deleted it")
    return str(request["ticket"])
