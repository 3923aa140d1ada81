"""Transient failures: which trials are retried automatically, and when."""

import time
from dataclasses import dataclass

from fieldcraft.flows.spec.campaign_file import Dispatch
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial

LONGEST_S = 3600.0  # between two attempts


@dataclass(frozen=True)
class Retry:
    """A failed trial that its approval allows to be sent again.

    Args:
        trial: The trial, FAILED.
        number: Number of this retry under the approval, from 1.
        allowed: Number of retries that the approval allows.
        due: Time of the retry, in seconds since the epoch.
    """

    trial: Trial
    number: int
    allowed: int
    due: float


def retries(ledger: Ledger, chosen: Dispatch, campaign: str) -> list[Retry]:
    """The coming retries, soonest first: transient failures with an attempt left under a live approval."""
    now = time.time()
    usable = [found for found in ledger.retriable(campaign) if found.expires is None or found.expires > now]
    coming = [Retry(f.trial, f.used, f.attempts - 1, _due(f.failed, backoff(chosen, f.used), now)) for f in usable]
    return sorted(coming, key=lambda retry: (retry.due, retry.trial.number))


def _due(failed: float, pause: float, now: float) -> float:
    """End of the pause after a failure, in seconds since the epoch; now if the clock was set back since."""
    return failed + pause if failed <= now else now


def backoff(chosen: Dispatch, failures: int) -> float:
    """Pause in seconds after so many failures in a row: doubled each time, up to one hour."""
    return float(min(chosen.backoff_s * 2.0 ** min(failures - 1, 60), LONGEST_S))
