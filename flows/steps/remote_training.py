"""Asking Prefect to have a model trained in another work pool, and whether that is still worth waiting for.

A pass asks and ends; a later pass asks again under the same idempotency key, which is answered with the same flow run,
until the ledger has the model. So nothing is remembered here, and what is true is never asked of Prefect: its states
only say when to give up waiting. Then the pass trains the model itself, which gives the same model on the same device.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldcraft.flows.text import one_line
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.records import Campaign, Lease, digest_of

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

_ANSWER_S = 10.0  # a server that takes longer cannot be reached


@dataclass(frozen=True)
class Awaited:
    """A training that is under way elsewhere.

    Args:
        what: The flow run, or the process, that is waited for.
        state: How it stands, in a word or two.
    """

    what: str
    state: str


@dataclass(frozen=True)
class Declined:
    """Why nothing is to be expected from elsewhere, in one line."""

    reason: str


def ask(site: Site, iteration: int, data_digest: str) -> Awaited | Declined:
    """Ask for the model of an iteration, or ask after it.

    Where Prefect does not answer, a process that holds the trainer's lease is still waited for: it needs the ledger
    alone to deliver.

    Args:
        site: The campaign, whose settings name the deployment.
        iteration: Of the model.
        data_digest: What it is to be trained on: another digest is another request.
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
    """Whether a flow run is worth waiting for.

    Args:
        run: The flow run.
        trainer: Whoever holds the trainer's lease and may be alive.
        limit_s: How long nobody may hold it while the run's state stays the same, in seconds.
    """
    state, what = run.state, f"flow run {run.name}"
    if state is None:
        return Awaited(what, "new")
    if state.is_final() and not (state.is_completed() and trainer is not None):
        return Declined(f"{what} ended as {state.name}: {one_line(state.message or 'it says no more')}")
    if trainer is None and time.time() - state.timestamp.timestamp() > limit_s:
        return Declined(f"nobody trains: {what} has been {state.name} for more than {limit_s:g} s")
    return Awaited(what, state.name or str(state.type))


@contextmanager
def _prefect() -> "Iterator[SyncPrefectClient]":
    """A client of the server that PREFECT_API_URL names.

    Raises:
        RuntimeError: none is named, and Prefect is not to start one for this; or it does not answer.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        raise RuntimeError("PREFECT_API_URL names no server")
    with get_client(httpx_settings={"timeout": _ANSWER_S}, sync_client=True) as client:
        yield client


def _requested(client: "SyncPrefectClient", site: Site, iteration: int, data_digest: str) -> "FlowRun":
    """The flow run of a request, made at the first call."""
    settings = site.campaign.settings
    assert settings.train is not None  # whoever asks has looked
    deployment = client.read_deployment_by_name(settings.train)
    return client.create_flow_run_from_deployment(
        deployment.id,
        parameters={"name": site.name, "iteration": iteration, "data": data_digest, "home": str(settings.home)},
        idempotency_key=f"{_identity(site.ledger.campaign(site.name))}-train-{iteration}-{data_digest}",
        name=f"{site.name}-train-{iteration}-{data_digest[:8]}",
    )


def _identity(campaign: Campaign) -> str:
    """Tells the campaign from another one of its name, in another home that uses the same server."""
    return f"{campaign.name}-{digest_of([campaign.digest, campaign.created])[:16]}"
