"""Passes under a campaign's lease, which is given back however they end."""

from collections.abc import Iterator
from contextlib import contextmanager

from fieldcraft.flows.dispatchers.inline import write_down
from fieldcraft.storage.ledger import LeaseLost, Ledger
from fieldcraft.storage.records import Lease


@contextmanager
def held(ledger: Ledger, name: str, *, break_lease: bool = False, due: float | None = None) -> Iterator[Lease]:
    """Hold a campaign's lease; after passes that ended in an error, nothing that was due before counts as served.

    What only this process knows of its jobs is written down before the lease is given back.

    Args:
        ledger: Where the lease is.
        name: The campaign.
        break_lease: Replace a holder that may be alive.
        due: When the pass was to begin, in seconds since the epoch; None for one that is wanted in any case.

    Raises:
        storage.ledger.LeaseHeld: another process makes passes over the campaign.
        storage.ledger.PassServed: a later pass has done what this one was to do.
        storage.ledger.LeaseLost: another process took the lease over meanwhile.
    """
    lease = ledger.acquire(name, break_lease=break_lease, due=due)
    done = False
    try:
        yield lease
        done = True
    except OSError as error:  # a file that is gone may have been tidied up by whoever took the lease over
        holder = ledger.holder(name)
        if holder is None or holder.token != lease.token:
            raise LeaseLost.to(lease, holder) from error
        raise
    finally:
        write_down(name)
        ledger.release(lease, done)


@contextmanager
def trainer_held(ledger: Ledger, name: str, *, break_lease: bool = False) -> Iterator[Lease]:
    """Hold the lease under which a campaign's model is trained outside a pass, or kept from being so.

    Args:
        ledger: Where the lease is.
        name: The campaign.
        break_lease: Replace a holder that may be alive: what it has still to write is refused then.

    Raises:
        storage.ledger.LeaseHeld: another process holds it.
    """
    lease = ledger.acquire_trainer(name, break_lease=break_lease)
    try:
        yield lease
    finally:
        ledger.release(lease)
