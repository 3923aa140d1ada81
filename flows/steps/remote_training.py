"""Remote training: requests to Prefect for a model from another work pool, and when to stop waiting for it.

A pass sends the request and ends. Later passes repeat it with the same idempotency key, which Prefect answers with the
same flow run, until the ledger has the model. So no state is kept here. Only the ledger decides whether the model
exists; the states of Prefect only decide when to stop waiting. The pass then trains the model itself, which gives the
same model on the same device.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldcraft.flows.text import AHEAD_S, clock, one_line
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.records import CampaignRecord, Lease, digest_of

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

_ANSWER_S = 10.0  # a server that takes longer cannot be reached


@dataclass(frozen=True)
class Awaited:
    """A remote training under way.

    Args:
        what: The flow run, or the process, that is waited for.
        state: Its state, in a word or two.
    """

    what: str
    state: str


@dataclass(frozen=True)
class Declined:
    """Refusal of remote training, with the reason in one line."""

    reason: str


def ask(site: Site, iteration: int, data_digest: str) -> Awaited | Declined:
    """Request the model of an iteration, or check on that request.

    If Prefect does not answer, a process that holds the trainer's lease is still waited for: it needs only the ledger
    to deliver the model.

    Args:
        site: The campaign, whose settings name the deployment.
        iteration: Iteration of the model.
        data_digest: Digest of the training data; another digest is another request.
    """
    import httpx
    from prefect.exceptions import PrefectException
    from prefect.states import Cancelled

    settings, trainer = site.campaign.settings, site.ledger.trainer(site.name)
    try:
        with _prefect() as client:
            run = _requested(client, site, iteration, data_digest)
            answer = judged(run, trainer, settings.train_wait_s)
            if isinstance(answer, Declined) and run.state is not None and not run.state.is_final():
                client.set_flow_run_state(run.id, Cancelled(message=answer.reason))
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:  # RuntimeError: the client's word for no answer
        if trainer is not None:
            return Awaited(f"pid {trainer.pid} on {trainer.host}", "training, while Prefect does not answer")
        return Declined(
            f"Prefect could not be asked for {settings.train}: {one_line(str(error) or type(error).__name__)}"
        )
    return answer


def judged(run: "FlowRun", trainer: Lease | None, limit_s: float) -> Awaited | Declined:
    """Decide whether to wait for a flow run.

    Args:
        run: The flow run.
        trainer: The trainer's lease of a process that may be alive; None if there is none.
        limit_s: Time in seconds that the run's state may stay the same while no process holds that lease.
    """
    state, what = run.state, f"flow run {run.name}"
    if state is None:
        return Awaited(what, "new")
    if state.is_completed() and trainer is not None:
        gave_way = f"trains, and {what} gave way to it. If that machine is gone for good, set FIELDCRAFT_TRAIN=here"
        return Awaited(f"pid {trainer.pid} on {trainer.host}", gave_way)
    if state.is_final():
        return Declined(f"{what} ended as {state.name}: {one_line(state.message or 'it says no more')}")
    since = state.timestamp.timestamp()
    if trainer is None and since > time.time() + max(limit_s, AHEAD_S):
        return Declined(f"nobody trains: {what} is {state.name} as of {clock(since)}, and the clock was set back since")
    if trainer is None and time.time() - since > limit_s:
        return Declined(f"nobody trains: {what} has been {state.name} for more than {limit_s:g} s")
    return Awaited(what, state.name or str(state.type))


@contextmanager
def _prefect() -> "Iterator[SyncPrefectClient]":
    """A client of the server that PREFECT_API_URL names.

    Raises:
        RuntimeError: no server is named (Prefect must not start one for this), or it does not answer.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        raise RuntimeError("PREFECT_API_URL names no server")
    with get_client(httpx_settings={"timeout": _ANSWER_S}, sync_client=True) as client:
        yield client


def _requested(client: "SyncPrefectClient", site: Site, iteration: int, data_digest: str) -> "FlowRun":
    """The flow run of a request, created at the first call."""
    settings = site.campaign.settings
    assert settings.train is not None  # whoever asks has looked
    deployment = client.read_deployment_by_name(settings.train)
    return client.create_flow_run_from_deployment(
        deployment.id,
        parameters={"name": site.name, "iteration": iteration, "data": data_digest, "home": str(settings.home)},
        idempotency_key=f"{_identity(site.ledger.campaign(site.name))}-train-{iteration}-{data_digest}",
        name=f"{site.name}-train-{iteration}-{data_digest[:8]}",
    )


def _identity(campaign: CampaignRecord) -> str:
    """Identifier that tells the campaign from one of the same name in another home that uses the same server."""
    return f"{campaign.name}-{digest_of([campaign.digest, campaign.created])[:16]}"
