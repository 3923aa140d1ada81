"""Trials and results that a process has read before: of ten thousand only those that changed are read again.

Every change of a trial and every result adds an event to the same transaction, and SQLite numbers events in the order
of the commits: whoever knows a campaign up to one event needs only what later events name. Other databases give out a
number before its commit, so there everything is read each time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, RowMapping, bindparam, select

from fieldcraft.storage.ledgers.operations import summaries
from fieldcraft.storage.ledgers.operations.summaries import Amounts
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.records import ResultSummary, TrialSummary

_EVENTS = select(schema.events.c.id, schema.events.c.created, schema.events.c.trial).where(
    schema.events.c.campaign == bindparam("campaign")
)
_LAST = _EVENTS.order_by(schema.events.c.id.desc()).limit(1)
_NEWS = _EVENTS.where(schema.events.c.id >= bindparam("since")).order_by(schema.events.c.id)
T = TypeVar("T")
_FEW = 500  # of changed trials; above that all are read
_CAMPAIGNS = 8  # of a ledger that are kept, the latest


@dataclass(frozen=True)
class _Known:
    """The trials of a campaign as of an event.

    Args:
        event: Number of its latest event, and the time that this states.
        trials: ``Ledger.summaries``.
        settled: ``Ledger.settled``; None if it was not asked for.
        results: ``Ledger.result_summaries``; None if they were not asked for.
    """

    event: tuple[int, float]
    trials: tuple[TrialSummary, ...]
    settled: Mapping[str, int] | None = None
    results: tuple[ResultSummary, ...] | None = None


@dataclass(frozen=True)
class _Sums:
    """The amounts of a campaign as of an event, by block of trials."""

    event: tuple[int, float]
    blocks: Mapping[int, Amounts]


# Of a file that replaces a ledger's the engine is another, and so is the event of a number and a time.
_known: WeakKeyDictionary[Engine, dict[str, _Known]] = WeakKeyDictionary()
_sums: WeakKeyDictionary[Engine, dict[str, _Sums]] = WeakKeyDictionary()


def trials(connection: Connection, campaign: str) -> tuple[TrialSummary, ...]:
    """All trials in brief, by number; see ``Ledger.summaries``."""
    return _now(connection, campaign).trials


def settled(connection: Connection, campaign: str) -> Mapping[str, int]:
    """Ids of the events that settled the trials; see ``Ledger.settled``."""
    known = _now(connection, campaign)
    if known.settled is not None:
        return known.settled
    found = summaries.settled(connection, campaign)
    _keep(connection, campaign, replace(known, settled=found), _known)
    return found


def results(connection: Connection, campaign: str) -> tuple[ResultSummary, ...]:
    """All results in brief, oldest first; see ``Ledger.result_summaries``."""
    known = _now(connection, campaign)
    if known.results is not None:
        return known.results
    found = summaries.results(connection, campaign)
    _keep(connection, campaign, replace(known, results=found), _known)
    return found


def amounts(connection: Connection, campaign: str) -> Amounts:
    """Amounts that all trials spent and reserve; for a transaction that has written nothing yet.

    The sum is over blocks, so that it depends on nothing but the trials, whenever each block was read.
    """
    last = _latest(connection, campaign)
    known = _sums.get(connection.engine, {}).get(campaign)
    if known is None or known.event != last:
        changed = _changed(connection, campaign, known.event) if known else None
        if known is None or changed is None:
            known = _Sums(last, summaries.amounts(connection, campaign))
        else:
            known = _Sums(last, {**known.blocks, **summaries.amounts(connection, campaign, among=changed)})
        _keep(connection, campaign, known, _sums)
    blocks = known.blocks.values()
    return Amounts(
        sum(block.sent for block in blocks),
        math.fsum(block.spent for block in blocks),
        math.fsum(block.reserved for block in blocks),
        math.fsum(block.seconds for block in blocks),
        sum(block.out for block in blocks),
    )


def _now(connection: Connection, campaign: str) -> _Known:
    """The campaign as this transaction sees it."""
    last = _latest(connection, campaign)
    known = _known.get(connection.engine, {}).get(campaign)
    if known is None or known.event != last:
        known = _since(connection, campaign, known, last) if known else None
        known = known or _Known(last, summaries.trials(connection, campaign))
        _keep(connection, campaign, known, _known)
    return known


def _since(connection: Connection, campaign: str, known: _Known, last: tuple[int, float]) -> _Known | None:
    """The campaign as of the event ``last``; None if it is of another ledger, or if much has changed."""
    names = _changed(connection, campaign, known.event)
    if names is None:
        return None
    news = {trial.id: trial for trial in summaries.trials(connection, campaign, among=names)}
    results = known.results
    if results is not None:
        results += summaries.results(connection, campaign, after=results[-1].id if results else 0)
    settled = known.settled
    if settled is not None:
        settled = {**settled, **summaries.settled(connection, campaign, after=known.event[0])}
    told = tuple(news.pop(trial.id, trial) for trial in known.trials)
    return _Known(last, told + tuple(sorted(news.values(), key=lambda trial: trial.number)), settled, results)


def _changed(connection: Connection, campaign: str, known: tuple[int, float]) -> set[str] | None:
    """Ids of the trials that events after this one are about; None if it is of another ledger, or if these are many."""
    events = connection.execute(_NEWS, {"campaign": campaign, "since": known[0]}).mappings().all()
    names = {event["trial"] for event in events[1:]} - {None}
    if not events or _named(events[0]) != known or len(names) > _FEW:
        return None
    return names


def _latest(connection: Connection, campaign: str) -> tuple[int, float]:
    return _named(connection.execute(_LAST, {"campaign": campaign}).mappings().one())


def _named(event: RowMapping) -> tuple[int, float]:
    return event["id"], event["created"]


def _keep(connection: Connection, campaign: str, known: T, of: WeakKeyDictionary[Engine, dict[str, T]]) -> None:
    if connection.dialect.name != "sqlite":
        return
    kept = of.setdefault(connection.engine, {})
    kept.pop(campaign, None)
    kept[campaign] = known
    if len(kept) > _CAMPAIGNS:
        kept.pop(next(iter(kept)), None)
