"""Limits of a campaign: the rule that the ledger enforces and a pass checks beforehand.

For each quantity let S be the amount spent, R the amount reserved for everything that is out and m the amount asked
for. There is room while S + R + m <= limit, and always for m = 0.
"""

from typing import Literal, NamedTuple

from fieldcraft.storage.records import Limits, Spending

LARGEST = 1e300
"""Cost or seconds of one thing, at most: those of many can still be summed up."""
_SLACK = 1e-9  # relative: a sum of costs may differ from the limit by rounding


class Asked(NamedTuple):
    """One request to a limit: of ``trials``, ``cost`` in budget units, or ``seconds`` of wall time."""

    of: Literal["trials", "cost", "seconds"]
    limit: float | None  # None for no limit
    used: float  # spent and reserved
    more: float | None  # that was asked for; None for any amount


def refused(limits: Limits, spending: Spending, *, trials: int, cost: float | None) -> Asked | None:
    """The first limit that has no room for one more attempt; None if all have room.

    Args:
        limits: Limits of the campaign.
        spending: Amounts that it has spent and reserved.
        trials: 1 for a trial that was never sent, else 0.
        cost: Expected cost of the attempt, in budget units; None to ask if anything at all is left.
    """
    used, seconds = spending.spent + spending.reserved, spending.seconds + spending.seconds_reserved
    asked = (
        Asked("trials", limits.trials, spending.trials, trials),
        Asked("cost", limits.cost, used, cost),
        Asked("seconds", limits.seconds, seconds, limits.attempt_seconds),
    )
    return next((one for one in asked if _no_room(one)), None)


def _no_room(asked: Asked) -> bool:
    if asked.limit is None:
        return False
    if asked.more is None:
        return asked.used >= asked.limit * (1 - _SLACK)
    return asked.more > 0 and asked.used + asked.more > asked.limit * (1 + _SLACK)
