"""Adoption of results from elsewhere as completed trials of a campaign."""

from collections.abc import Iterable

from fieldcraft.flows.errors import InputError
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Known


def adopt(
    ledger: Ledger, campaign: str, ended: str | None, known: Iterable[Known], digest: str, source: str, by: str
) -> tuple[str, ...]:
    """Adopt results all or none, under the lease of a pass; returns the ids of their trials.

    Args:
        ledger: The ledger.
        campaign: Name of the campaign.
        ended: Reason why it has ended; None if it has not.
        known: The results; made under the lease, so that nobody sweeps the fields that are stored for them.
        digest: SHA-256 of their source.
        source: The source in words.
        by: Person who asks.

    Raises:
        InputError: the campaign has ended.
        storage.ledger.LeaseHeld: a pass is under way, which would propose without these results.
    """
    if ended is not None:
        raise InputError(f"Campaign {campaign!r} has ended ({ended}). Give the file another name to start anew.")
    lease = ledger.acquire(campaign)
    try:
        trials = ledger.fenced(lease).adopt(campaign, list(known), digest, source, by)
    finally:
        ledger.release(lease, done=False)  # no pass was made
    return tuple(trial.id for trial in trials)
