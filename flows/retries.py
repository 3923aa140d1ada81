"""Failures in passing: which trials go again by themselves, and when."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from flows.spec import Dispatch
from storage.ledger import Ledger
from storage.records import Event, Trial, TrialState

LONGEST_S = 3600.0  # between two attempts


@dataclass(frozen=True)
class Retry:
    """A failed trial that its approval lets go again.

    Args:
        trial: The trial, FAILED.
        number: Which retry under this approval it will be, from 1.
        allowed: How many retries the approval leaves room for.
        due: When it may go, in seconds since the epoch.
    """

    trial: Trial
    number: int
    allowed: int
    due: float


def retries(ledger: Ledger, chosen: Dispatch, trials: Sequence[Trial]) -> list[Retry]:
    """The retries to come, soonest first: transient failures with an attempt left under a live approval."""
    failed = [trial for trial in trials if trial.state is TrialState.FAILED and trial.failure == "transient"]
    found = [retry for trial in failed if (retry := _retry(ledger, chosen, trial)) is not None]
    return sorted(found, key=lambda retry: (retry.due, retry.trial.number))


def backoff(chosen: Dispatch, failures: int) -> float:
    """Pause in seconds after so many failures in a row: doubled each time, up to an hour."""
    return float(min(chosen.backoff_s * 2.0 ** min(failures - 1, 60), LONGEST_S))


def _retry(ledger: Ledger, chosen: Dispatch, trial: Trial) -> Retry | None:
    live = [approval for approval in ledger.approvals(trial.id) if approval.live]
    if not live or (live[-1].expires is not None and live[-1].expires <= time.time()):
        return None
    history = ledger.history(trial.campaign, trial.id)
    used = sum(_stages(event, live[-1].version) for event in history)
    if used >= live[-1].attempts:
        return None
    failed = max(event.created for event in history if event.after is TrialState.FAILED)
    return Retry(trial, used, live[-1].attempts - 1, failed + backoff(chosen, used))


def _stages(event: Event, since: int) -> bool:
    """Whether the event claimed the trial for an attempt, after the version at which it was approved."""
    return event.action == "move" and event.after is TrialState.STAGED and (event.version or 0) > since
