"""Simulations on the workers of a Dask cluster: the one that FIELDCRAFT_DASK names, or one of this machine.

The workers see the campaigns' work folder under the path of the passes (``flows.jobs.remote_jobs``). Dask is given a
reference to one function of ours and the path of a folder; it moves no data. A task that Dask repeats, as after the
death of its worker, finds that the job has begun and leaves it alone.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fieldcraft.flows.jobs.dask_cluster import Cluster, NamedCluster, OwnCluster, Unreachable, client_of, keep, known
from fieldcraft.flows.jobs.dispatcher import CannotTell, Handle, Job, NotSent, Outcome, Place, Running
from fieldcraft.flows.jobs.remote_jobs import RemoteJobs, run_job

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client

_TAKEN_S = 10.0


@dataclass(frozen=True)
class Dask:
    """Runs jobs on a Dask cluster, each as a process group of its own beside the worker.

    Args:
        place: The campaign; a job over its wall time is killed with its process group.
    """

    place: Place
    by_people: ClassVar[bool] = False

    @property
    def _jobs(self) -> RemoteJobs:
        return RemoteJobs(self.place, self._unbegun)

    @property
    def _cluster(self) -> Cluster:
        if self.place.settings.dask is not None:
            return NamedCluster(self.place.settings.dask)
        return OwnCluster(self.place.folder.parent / ".dask")

    def submit(self, job: Job) -> Handle:
        """Write the request and submit the task to the scheduler; start the cluster of this machine if it is needed.

        Raises:
            NotSent: no scheduler answers.
        """
        try:
            self._cluster.start()
            with client_of(self._cluster) as client:
                known(client, job.key)  # a scheduler that hangs is found out before anything is written
                ticket = self._jobs.admit(self._with_plugins(job))
                with suppress(OSError, TimeoutError):  # whether it was taken, ``poll`` finds out
                    _hand_over(client, ticket, str(self._jobs.of(job.key).path))
        except Unreachable as error:
            raise NotSent(f"{error}. Start it, or set FIELDCRAFT_DASK, and run again: nothing is lost.") from None
        return {"key": job.key}

    def _with_plugins(self, job: Job) -> Job:
        """The job with the pass's plug-in folders added where the worker is on this machine.

        Such a worker may have been started by an earlier pass, with another environment.
        """
        if self.place.settings.dask is not None:
            return job
        plugins = [str(folder) for folder in self.place.settings.plugins]
        return replace(job, request={**job.request, "plugins": plugins})

    def _unbegun(self, ticket: str) -> str | Running:
        if (ended := self._cluster.ended()) is not None:
            return ended
        try:
            with client_of(self._cluster) as client:
                if not known(client, ticket):
                    return "Dask does not know its task, or has given it up"
                return Running(None if client.scheduler_info()["workers"] else "Dask's scheduler has no worker")
        except Unreachable as error:
            raise CannotTell(str(error)) from None

    def find(self, key: str) -> Handle | None:
        """The handle of a job that was recorded for Dask; None when none was."""
        return self._jobs.find(key)

    def look(self, handle: Handle) -> Outcome:
        """Return the state of the job from its folder, or from the scheduler before the job begins."""
        return self._jobs.look(handle)

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does; a job unknown to the scheduler is barred from beginning and has failed.

        For a job that has not begun, a worker of this machine that has ended is replaced.
        """
        if not self._jobs.of(handle["key"]).started:
            with suppress(Unreachable):  # the next look finds out
                self._cluster.mend()
        return self._jobs.poll(handle)

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields that the job wrote, checksums verified."""
        return self._jobs.of(handle["key"]).load()

    def cancel(self, handle: Handle) -> None:
        """Stop the job with its process group; a task that still waits ends when a worker takes it."""
        self._jobs.cancel(handle)

    def forget(self, key: str) -> None:
        """Delete the job's folder."""
        self._jobs.of(key).delete()

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return when one of the jobs has ended, or after ``seconds``."""
        self._jobs.wait(handles, seconds)


def _hand_over(client: "Client", ticket: str, folder: str) -> None:
    """Submit a task that lives on when this client goes, and return when the scheduler has it."""
    task = client.submit(run_job, folder, key=ticket, pure=False, retries=0)
    deadline = time.monotonic() + _TAKEN_S
    while not (keep(client, ticket) or task.done() or time.monotonic() > deadline):
        time.sleep(0.005)
    task.release()
