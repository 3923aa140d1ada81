"""Flows that schedules, workers and ``fieldcraft run`` call: the pass, with one task a step; training; export."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from prefect import flow, get_client, tags, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Crashed

from fieldcraft.flows.machinery.prefect_server import silence
from fieldcraft.flows.machinery.profiling import measured, step_name
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.emulator.network import train_emulator_outside
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Passed, Ref, make_pass
from fieldcraft.flows.steps.schedule import CatchUp, Tick, tick
from fieldcraft.flows.steps.train import train_outside
from fieldcraft.flows.text import one_line
from fieldcraft.flows.views.export import export_mlflow
from fieldcraft.flows.wiring.physics.networks import EMULATOR
from fieldcraft.storage.ledger import LeaseHeld, LeaseLost
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord, Lease, digest_of

_GONE = "Its process ended without a word. Nothing is lost: a later run has taken the campaign over."
P = ParamSpec("P")
T = TypeVar("T")


@cache
def _as_task(step: Callable[..., Any]) -> Callable[..., Any]:
    # No caching and no retries of Prefect's: what was done is asked of the ledger, and doing a step again is safe.
    as_task = task(name=step_name(step), cache_policy=NO_CACHE, persist_result=False, retries=0)
    return as_task(measured(step))


def through_prefect(step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a step as a Prefect task; only references pass through Prefect."""
    result: T = _as_task(step)(*args, **kwargs)
    return result


@contextmanager
def flow_runs_of(campaign: CampaignRecord) -> Iterator[None]:
    """Tag the block's flow runs with a campaign whose lease this process holds; earlier ones that still run crashed.

    Those are of processes that died without a word to Prefect, which has no other way to know. Several ledgers may show
    campaigns of one name on a server, from files of the same path on other machines: the time of its creation tells a
    campaign.
    """
    mark = f"campaign-{digest_of([campaign.name, campaign.created])[:12]}"
    running = {"tags": {"all_": [mark]}, "state": {"type": {"any_": [StateType.RUNNING]}}}
    with get_client(sync_client=True) as client:
        for left in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(running)):
            with suppress(ObjectNotFound):
                client.set_flow_run_state(left.id, Crashed(message=_GONE), force=True)
    with tags(mark):
        yield


def in_one_flow(name: str, function: Callable[[], T]) -> T:
    """Call a function as a flow run named after a campaign, in which ``through_prefect`` calls its tasks.

    What the function returned or raised counts where Prefect cannot be told of it at its end: where its API is away,
    refuses, or has no such flow run any more.
    """
    import httpx

    found: list[T] = []
    raised: list[BaseException] = []

    @flow(name="run", flow_run_name=name, persist_result=False, retries=0)
    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            raised.append(error)
            raise

    try:
        run()
    except (httpx.HTTPError, RuntimeError, ObjectNotFound) as error:
        if raised and error is not raised[0]:
            raise raised[0] from None
        if not found:
            raise
        problem = "the flow run was deleted there" if isinstance(error, ObjectNotFound) else silence(error)
        if problem is None:
            raise
        tell("unshown", problem=problem)
    finally:
        raised.clear()  # an error that somebody keeps would keep itself by this frame
    return found[0]


@flow(name="iterate", persist_result=False, retries=0)
def iterate(
    name: str, home: str | None = None, lease: dict[str, Any] | None = None, catch_up: CatchUp = "once"
) -> dict[str, Any]:
    """One pass over a campaign.

    Args:
        name: Campaign, which must exist in the ledger.
        home: Folder of the stores; by default the settings'.
        lease: A pass lease that the caller holds; by default the pass takes one and gives it back.
        catch_up: Handling of a deployment's missed runs: ``once`` makes one pass for all of them, ``skip`` makes none.

    Returns:
        Actions of the pass (``flows.steps.one_pass.Passed`` as data). A deployment's run ends in a completed state with
        these, or in a state named Skipped where no pass was needed or another process was making one.

    Raises:
        storage.ledger.LeaseHeld: called directly while another process makes passes over the campaign; names it.
    """
    settings = settings_from(home=Path(home) if home else None)

    def make(under: Lease) -> Passed:
        return make_pass(Ref(str(settings.home), name, under.model_dump()), through_prefect)

    if lease is not None:
        return asdict(make(Lease.model_validate(lease)))
    ledger = open_ledger(settings.ledger)
    if (due := _due()) is not None:
        # Prefect takes a state for a result; only its own engine ever sees this one.
        return cast(dict[str, Any], _state(name, tick(ledger, name, Tick(due, catch_up), make)))
    with held(ledger, name) as taken:
        return asdict(make(taken))


@flow(name="train", persist_result=False, retries=0)
def train(name: str, iteration: int, data: str, home: str | None = None) -> State[Any]:
    """Train the model of an iteration, which a pass asked for (FIELDCRAFT_TRAIN), and store it for the next pass.

    Args:
        name: Campaign, which must exist in the ledger.
        iteration: Iteration of the model; 0 for the network of the campaign's emulator.
        data: Digest of the training data, or of that network's collocation points.
        home: Folder of the stores; by default the settings'.

    Returns:
        A completed state that names the stored model, or a state named Skipped where there was nothing to store: the
        results have changed since, another process trains, or the pass has stopped waiting.

    Raises:
        ValueError: the surrogate cannot be trained on these data.
    """
    place = str(settings_from(home=Path(home) if home else None).home)
    try:
        who = f"flow run {flow_run.name or 'without a name'}"
        if iteration == EMULATOR:
            done = train_emulator_outside(place, name, data, who)
        else:
            done = train_outside(place, name, iteration, data, who)
    except (LeaseHeld, LeaseLost) as error:
        return _skipped(name, str(error))
    if isinstance(done, str):
        return _skipped(name, done)
    return Completed(message=f"{name}: model of iteration {iteration}, digest {done.digest[:12]}")


@flow(name="export", persist_result=False, retries=0)
def export(name: str | None = None, home: str | None = None) -> State[Any]:
    """Show in MLflow the events since the last export. No pass waits for this.

    Args:
        name: Campaign; by default all of the store.
        home: Folder of the stores; by default the settings'.

    Returns:
        A completed state with the number of events shown, or one named Skipped while another process exports.

    Raises:
        flows.errors.InputError: FIELDCRAFT_MLFLOW is ``off``.
        storage.trackers.campaigns.TrackingError: MLflow does not answer; the next export catches up.
    """
    try:
        count = export_mlflow(settings_from(home=Path(home) if home else None), name)
    except LeaseHeld as error:
        return _skipped("export", str(error))
    return Completed(message=f"export: {count} events shown in MLflow")


def _due() -> float | None:
    """Scheduled start of this run, in seconds since the epoch; None when no deployment asked for it.

    A repeated run (a person's retry of one that failed or crashed) is due now.
    """
    if deployment.id is None:
        return None
    return time.time() if flow_run.run_count > 1 else float(flow_run.scheduled_start_time.timestamp())


def _state(name: str, outcome: Passed | str) -> State[Any]:
    """Final Prefect state of a tick: always completed, with a message on what was done or why nothing was."""
    if isinstance(outcome, str):
        return _skipped(name, outcome)
    ended, waits = outcome.decision.finished, outcome.decision.wait
    then = f"ended ({ended})" if ended else f"waits for {waits}" if waits else "the next pass goes on"
    done = f"harvested {outcome.harvested}, sent {outcome.sent}, proposed {outcome.proposed}"
    return Completed(message=one_line(f"{name}: {done}; {then}"))


def _skipped(name: str, reason: str) -> State[Any]:
    return Completed(name="Skipped", message=one_line(f"{name}: {reason}"))
