"""The pass as a Prefect flow, one task a step: what schedules, workers and ``fieldcraft run`` call."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.passes import Ref, make_pass
from flows.settings import settings_from
from storage.ledger import open_ledger

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _as_task(step: Callable[..., Any]) -> Callable[..., Any]:
    # No caching and no retries of Prefect's: what was done is asked of the ledger, and doing a step again is safe.
    return task(name=step.__name__.removesuffix("_step"), cache_policy=NO_CACHE, persist_result=False, retries=0)(step)


def through_prefect(step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a step as a Prefect task; only references pass through Prefect."""
    result: T = _as_task(step)(*args, **kwargs)
    return result


@flow(name="iterate", persist_result=False, retries=0)
def iterate(name: str, home: str | None = None, lease: dict[str, Any] | None = None) -> dict[str, Any]:
    """One pass over a campaign.

    Args:
        name: Campaign, which must exist in the ledger.
        home: Folder of the stores; by default the settings'.
        lease: A lease that the caller holds; by default the pass takes one and gives it back.

    Returns:
        What the pass did (``flows.passes.Passed`` as data).

    Raises:
        storage.ledger.LeaseHeld: another process makes passes over the campaign; names it.
    """
    settings = settings_from(home=Path(home) if home else None)
    if lease is not None:
        return _pass(settings.home, name, lease)
    ledger = open_ledger(settings.ledger)
    taken = ledger.acquire(name)
    try:
        return _pass(settings.home, name, taken.model_dump())
    finally:
        ledger.release(taken)


def _pass(home: Path, name: str, lease: Mapping[str, Any]) -> dict[str, Any]:
    return asdict(make_pass(Ref(str(home), name, lease), through_prefect))
