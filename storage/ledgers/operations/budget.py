"""Budget of a campaign: reserved when a trial is staged, settled when its attempt ends.

The amount reserved is the expected cost of all trials that are out (STAGED, RUNNING, HELD). The amount spent is the
cost of ended attempts; a correction may change that of the last one. Each attempt reserves its limit of wall time.
``storage.limits`` decides if a trial may be staged.
"""

import math
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, bindparam, select

from fieldcraft.storage.ledger.errors import BudgetSpent, ForbiddenMove
from fieldcraft.storage.ledgers.operations import remembered
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import checked
from fieldcraft.storage.limits import LARGEST, refused
from fieldcraft.storage.records import OUT, Limits, Number, Record, Spending, Trial, TrialState

_UNITS = {"trials": "trials", "cost": "budget units", "seconds": "s of wall time"}


class Charge(Record):
    """Amounts that an event adds to the cost and wall time of a trial; below 0 where a correction gives some back."""

    spent: Number  # budget units
    seconds: Number


class Settlement(Charge):
    """Cost and wall time of one attempt; kept in the details of the event that ended it."""

    spent: Number = Field(ge=0)
    seconds: Number = Field(ge=0)


def settlement(
    connection: Connection, before: Trial, to: TrialState, cost: float | None, seconds: float | None
) -> Settlement | None:
    """Cost and wall time of the attempt that a move to ``to`` ends; the reserved amounts where they are not known.

    Returns:
        None when the move ends no attempt.
    """
    if before.state not in OUT or to in OUT:
        return None
    spent = before.cost if cost is None else cost
    time = _limits(connection, before.campaign).attempt_seconds if seconds is None else seconds
    return checked(Settlement, f"What attempt {before.attempt} of {before.id} came to", spent=spent, seconds=time)


def supplement(connection: Connection, before: Trial, cost: float | None, seconds: float | None) -> Settlement | None:
    """Amounts that a late result adds to its attempt, which has ended: the excess over what was charged.

    Returns:
        None when nothing is added, or the attempt ended under schema 1.
    """
    charged = _charged(connection, before)
    if charged is None:
        return None
    spent, time = (charged.spent if cost is None else cost), (charged.seconds if seconds is None else seconds)
    said = checked(Settlement, f"What attempt {before.attempt} of {before.id} came to", spent=spent, seconds=time)
    more = Settlement(spent=max(0.0, said.spent - charged.spent), seconds=max(0.0, said.seconds - charged.seconds))
    return more if more.spent or more.seconds else None


def amendment(connection: Connection, before: Trial, cost: float | None, seconds: float | None) -> Charge | None:
    """Amounts that a correction adds to the last attempt of a completed trial, so that it came to these.

    Returns:
        None when that changes nothing.

    Raises:
        ForbiddenMove: the trial was imported.
        InvalidRecord: an amount is negative or not finite.
    """
    if cost is None and seconds is None:
        return None
    if not before.attempt:
        raise ForbiddenMove(
            f"{before.id} was measured before the campaign, which paid nothing for it: it has no cost and no time to "
            "correct."
        )
    earlier = _before_last_attempt(connection, before)
    charged = Charge(spent=max(0.0, before.spent - earlier.spent), seconds=max(0.0, before.seconds - earlier.seconds))
    spent, time = (charged.spent if cost is None else cost), (charged.seconds if seconds is None else seconds)
    said = checked(Settlement, f"What attempt {before.attempt} of {before.id} came to", spent=spent, seconds=time)
    more = Charge(
        spent=_difference(said.spent, charged.spent, before.spent),
        seconds=_difference(said.seconds, charged.seconds, before.seconds),
    )
    return more if more.spent or more.seconds else None


def _difference(said: float, charged: float, total: float) -> float:
    """Difference of two amounts; 0 where it is the rounding of sums up to ``total``."""
    return 0.0 if math.isclose(said, charged, rel_tol=1e-9, abs_tol=1e-12 * total) else said - charged


def _before_last_attempt(connection: Connection, trial: Trial) -> Charge:
    """Sum over the attempts of a trial before its last one."""
    events = schema.events
    query = select(events.c.details, events.c.before, events.c.after).where(events.c.trial == trial.id)
    spent = seconds = 0.0
    earlier = Charge(spent=0.0, seconds=0.0)
    for told, left, entered in connection.execute(query.order_by(events.c.id)):
        if entered == TrialState.STAGED != left:
            earlier = Charge(spent=spent, seconds=seconds)
        spent, seconds = spent + told.get("spent", 0.0), seconds + told.get("seconds", 0.0)
    return earlier


def _charged(connection: Connection, trial: Trial) -> Settlement | None:
    """The last settlement of a trial, or None."""
    events = schema.events
    query = select(events.c.details).where(events.c.trial == trial.id).order_by(events.c.id.desc())
    for told in connection.execute(query).scalars():
        if "spent" in told:
            return Settlement(spent=told["spent"], seconds=told["seconds"])
    return None


def added(before: Trial, ended: Charge | None) -> dict[str, float]:
    """Columns of a trial that an ended attempt, or the correction of one, changes."""
    return {} if ended is None else {"spent": before.spent + ended.spent, "seconds": before.seconds + ended.seconds}


def details(ended: Charge | None) -> dict[str, Any]:
    """Details of the event that ended an attempt, or corrected one."""
    return {} if ended is None else ended.model_dump()


def reserve(connection: Connection, trial: Trial) -> None:
    """Raise ``BudgetSpent`` unless the campaign's limits leave room for one more attempt of ``trial``."""
    limits = _limits(connection, trial.campaign, lock=True)
    if limits.trials is limits.cost is limits.seconds is None:
        return
    now = spending(connection, trial.campaign, limits)
    found = refused(limits, now, trials=int(trial.level is None and not trial.attempt), cost=trial.cost)
    if found is not None:
        raise BudgetSpent(
            f"{trial.id} cannot be sent: {found.used:g} of the {found.limit:g} {_UNITS[found.of]} of "
            f"{trial.campaign!r} are spent or reserved, and it could take {found.more:g} more. Wait for what is out, "
            "or start a campaign with more."
        )


def spending(connection: Connection, campaign: str, limits: Limits | None = None) -> Spending:
    """Amounts that a campaign has spent and reserved; see ``Ledger.spending``."""
    limits = limits or _limits(connection, campaign)
    now = remembered.amounts(connection, campaign)
    return Spending(
        trials=now.sent,
        spent=now.spent,
        reserved=now.reserved,
        seconds=now.seconds,
        seconds_reserved=now.out * min(limits.attempt_seconds, LARGEST),
    )


# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_LIMITS = select(schema.campaigns.c.limits).where(schema.campaigns.c.name == bindparam("campaign"))
_LIMITS_TO_KEEP = _LIMITS.with_for_update()


def _limits(connection: Connection, campaign: str, *, lock: bool = False) -> Limits:
    row = connection.execute(_LIMITS_TO_KEEP if lock else _LIMITS, {"campaign": campaign}).scalar_one()
    return Limits(**row)
