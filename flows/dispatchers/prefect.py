"""Simulations as flow runs of a Prefect deployment, one for each attempt, run by the workers of its work pool.

The workers see the campaigns' work folder under the path of the passes (``flows.jobs.remote_jobs``). The job's ticket
is the idempotency key of its flow run, so Prefect makes one of it. The state of the flow run counts only until the job
begins; from then on the job's folder decides.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fieldcraft.flows.jobs.dispatcher import CannotTell, Handle, Job, NotSent, Outcome, Place, Running
from fieldcraft.flows.jobs.remote_jobs import RemoteJobs
from fieldcraft.flows.text import AHEAD_S, clock

if TYPE_CHECKING:
    import xarray as xr
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

_FLOW = "simulate"
_LATE = "Late"
_BEGIN_S = 600.0
"""A flow run that a worker took so long ago and whose job has not begun died with that worker."""


@dataclass(frozen=True)
class Prefect:
    """Runs jobs by a deployment of the flow ``simulate``, each as a process group of its own beside its flow run.

    Args:
        place: The campaign; a job over its wall time is killed with its process group.
        deployment: Name of the deployment: ``simulate/NAME``.
    """

    place: Place
    deployment: str = "simulate/simulate"
    by_people: ClassVar[bool] = False

    def __post_init__(self) -> None:
        flow, _, name = self.deployment.partition("/")
        if flow != _FLOW or not name:
            raise ValueError(f"no deployment of the flow {_FLOW!r}: give '{_FLOW}/NAME'")

    @property
    def _jobs(self) -> RemoteJobs:
        return RemoteJobs(self.place, self._unbegun)

    def submit(self, job: Job) -> Handle:
        """Write the request and create a flow run in Prefect; repeated calls create one flow run.

        Raises:
            NotSent: the server does not answer, or has no such deployment.
        """
        with _server(NotSent) as client:
            place = client.read_deployment_by_name(self.deployment).id
        ticket = self._jobs.admit(job)
        with suppress(_Away), _server(_Away) as client:  # whether there is a flow run now, ``poll`` finds out
            client.create_flow_run_from_deployment(
                place,
                parameters={"folder": str(self._jobs.of(job.key).path)},
                name=job.key,
                idempotency_key=ticket,
                tags=["fieldcraft", self.place.campaign],
            )
        return {"key": job.key}

    def _unbegun(self, ticket: str) -> str | Running:
        with _server(CannotTell) as client:
            found = _flow_run(client, ticket)
        if found is None or found.state is None:
            return "Prefect has no flow run of it"
        state = found.state
        if state.is_final():
            return f"flow run {found.name!r} ended as {state.name} before it began: {state.message or 'no message'}"
        taken = time.time() - state.timestamp.timestamp()
        if (state.is_pending() or state.is_running()) and taken > _BEGIN_S:
            return f"flow run {found.name!r} has been {state.name} for {taken:.0f} s without beginning"
        due = max(at for at in (state.timestamp, state.state_details.scheduled_time) if at is not None).timestamp()
        if due > time.time() + AHEAD_S:
            return f"flow run {found.name!r} is {state.name} as of {clock(due)}, and the clock was set back since"
        if state.name == _LATE:
            return Running(f"flow run {found.name!r} is late: no worker of its work pool has taken it yet")
        return Running()

    def find(self, key: str) -> Handle | None:
        """The handle of a job that was recorded for Prefect; None when none was."""
        return self._jobs.find(key)

    def look(self, handle: Handle) -> Outcome:
        """Return the state of the job from its folder, or from its flow run before the job begins."""
        return self._jobs.look(handle)

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does; a job whose flow run has ended or is gone is barred and has failed."""
        return self._jobs.poll(handle)

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields that the job wrote, checksums verified."""
        return self._jobs.of(handle["key"]).load()

    def cancel(self, handle: Handle) -> None:
        """Stop the job with its process group, or bar it and cancel its flow run.

        Without Prefect a barred flow run ends itself.
        """
        if not self._jobs.cancel(handle):
            return
        from prefect.states import Cancelled

        with suppress(_Away), _server(_Away) as client:
            found = _flow_run(client, str(self._jobs.of(handle["key"]).request["ticket"]))
            if found is not None:
                client.set_flow_run_state(found.id, Cancelled(message="cancelled by fieldcraft"))

    def forget(self, key: str) -> None:
        """Delete the job's folder."""
        self._jobs.of(key).delete()

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return when one of the jobs has ended, or after ``seconds``."""
        self._jobs.wait(handles, seconds)


class _Away(Exception):
    """Prefect does not answer, or refuses."""


@contextmanager
def _server(kind: type[NotSent | CannotTell | _Away]) -> Iterator["SyncPrefectClient"]:
    """A client of the server that PREFECT_API_URL or the profile names; errors within the block become ``kind``."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound, PrefectException
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    address = PREFECT_API_URL.value()
    if not address:
        raise kind("PREFECT_API_URL names no Prefect server. Set it to the one whose work pool runs simulations.")
    try:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}), get_client(sync_client=True) as client:
            yield client
    except ObjectNotFound:
        raise kind(
            f"The Prefect server at {address} has no deployment of simulations by that name. Deploy prefect.yaml there "
            "('prefect --no-prompt deploy --all'), or let PREFECT_API_URL name the server that has it."
        ) from None
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:  # RuntimeError: its first look at the server
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise kind(
            f"The Prefect server at {address} does not do what was asked ({said}). See that it runs, and go on: "
            "nothing is lost."
        ) from None


def _flow_run(client: "SyncPrefectClient", ticket: str) -> "FlowRun | None":
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterIdempotencyKey

    chosen = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[ticket]))
    return next(iter(client.read_flow_runs(flow_run_filter=chosen, limit=1)), None)
