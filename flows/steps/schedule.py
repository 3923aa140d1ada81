"""Ticks of a schedule; the ledger decides whether one still needs a pass.

A scheduler may fire a tick twice, and after an absence it fires every missed tick. So each tick carries the time at
which it was due, and the ledger has the time at which the latest pass began: a pass that began later has served it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Passed
from fieldcraft.storage.ledger import LeaseHeld, Ledger, PassServed
from fieldcraft.storage.records import Lease

CatchUp = Literal["once", "skip"]
LATE_S = 60.0  # from then on a tick counts as missed


@dataclass(frozen=True)
class Tick:
    """A tick of a schedule.

    Args:
        due: Scheduled start, in seconds since the epoch.
        catch_up: ``once``: missed ticks make one pass together; ``skip``: they make none.
    """

    due: float
    catch_up: CatchUp = "once"

    def missed(self, now: float) -> str | None:
        """Reason why a tick that begins at ``now`` is skipped as too late (over 60 s), or None."""
        late = now - self.due
        if self.catch_up == "skip" and late > LATE_S:
            return f"it begins {late:.0f} s late and catch_up is 'skip'; the next tick makes a pass."
        return None


def tick(ledger: Ledger, name: str, at: Tick, make_pass: Callable[[Lease], Passed]) -> Passed | str:
    """Make the pass of a tick, unless it is too late, was served already or another process makes a pass.

    Returns:
        The result of the pass, or the reason why there was none, in one line.
    """
    if reason := at.missed(time.time()):
        return reason
    try:
        with held(ledger, name, due=at.due) as lease:
            return make_pass(lease)
    except (LeaseHeld, PassServed) as error:
        return str(error)
