"""Pass leases and trainer leases, released at the end of a block however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from fieldcraft.flows.dispatchers.inline import write_down
from fieldcraft.storage.ledger import LeaseLost, Ledger
from fieldcraft.storage.records import Lease


@contextmanager
def held(ledger: Ledger, name: str, *, break_lease: bool = False, due: float | None = None) -> Iterator[Lease]:
    """Hold a campaign's pass lease. If the block fails, ticks that were due before do not count as served.

    Answers that only this process holds are written down before the lease is released.

    Args:
        ledger: Ledger of the campaign.
        name: The campaign.
        break_lease: Replace a holder that may be alive.
        due: Scheduled start of the pass, in seconds since the epoch; None for one without a schedule.

    Raises:
        storage.ledger.LeaseHeld: another process makes passes over the campaign.
        storage.ledger.PassServed: a later pass has already served this tick.
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
    """Hold the trainer's lease of a campaign, which allows training its model outside a pass, or prevents that.

    Args:
        ledger: Ledger of the campaign.
        name: The campaign.
        break_lease: Replace a holder that may be alive; its later writes are refused.

    Raises:
        storage.ledger.LeaseHeld: another process holds it.
    """
    lease = ledger.acquire_trainer(name, break_lease=break_lease)
    try:
        yield lease
    finally:
        ledger.release(lease)
