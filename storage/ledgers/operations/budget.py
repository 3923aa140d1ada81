"""Budget of a campaign: reserved when a trial is staged, settled when its attempt ends.

The amount reserved is the expected cost of all trials that are out (STAGED, RUNNING, HELD). The amount spent is the
cost of ended attempts. Each attempt reserves its limit of wall time. ``storage.limits`` decides if a trial may be
staged.
"""

from typing import Any

from pydantic import Field
from sqlalchemy import Connection, bindparam, select

from fieldcraft.storage.ledger.errors import BudgetSpent
from fieldcraft.storage.ledgers.operations import remembered
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import checked
from fieldcraft.storage.limits import LARGEST, refused
from fieldcraft.storage.records import OUT, Limits, Number, Record, Spending, Trial, TrialState

_UNITS = {"trials": "trials", "cost": "budget units", "seconds": "s of wall time"}


class Settlement(Record):
    """Cost and wall time of one attempt; kept in the details of the event that ended it."""

    spent: Number = Field(ge=0)  # budget units
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


def _charged(connection: Connection, trial: Trial) -> Settlement | None:
    """The last settlement of a trial, or None."""
    events = schema.events
    query = select(events.c.details).where(events.c.trial == trial.id).order_by(events.c.id.desc())
    for told in connection.execute(query).scalars():
        if "spent" in told:
            return Settlement(spent=told["spent"], seconds=told["seconds"])
    return None


def added(before: Trial, ended: Settlement | None) -> dict[str, float]:
    """Columns of a trial that an ended attempt changes."""
    return {} if ended is None else {"spent": before.spent + ended.spent, "seconds": before.seconds + ended.seconds}


def details(ended: Settlement | None) -> dict[str, Any]:
    """Details of the event that ended an attempt."""
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
