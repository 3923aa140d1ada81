"""Audit of a whole ledger: rows that cannot be read, and contradictions among the others."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, func, select

from fieldcraft.storage.ledgers.operations.histories import Rows, Spent, disagreements
from fieldcraft.storage.ledgers.tables import schema, unreadable
from fieldcraft.storage.ledgers.tables.unreadable import readable
from fieldcraft.storage.records import (
    Approval,
    CampaignRecord,
    Event,
    OutboxItem,
    Product,
    Record,
    Result,
    Trial,
    digest_of,
)

_AT_ONCE = 500  # trials whose events, results and approvals are in memory together
_NUMBERED = (schema.events, schema.results, schema.approvals, schema.outbox, schema.notices)
_ODD = (KeyError, TypeError, ValueError, AttributeError)  # what JSON of another form than it should have raises
R = TypeVar("R", Event, Result, Approval)
Shown = Mapping[tuple[str, str], Mapping[str, Any]]
"""What was last put down for tracking, by what it shows and which."""


def audit(connection: Connection) -> list[str]:
    """Problems of the ledger's records, one sentence each.

    A row that cannot be read is named. Checks that would compare it with other rows are left out, since they would only
    report it a second time.
    """
    broken = tuple(unreadable.find(connection))
    found = [*unreadable.said(broken), *_gaps(connection)]
    tables, trials = {row.table for row in broken}, {row.trial for row in broken if row.trial is not None}
    query = select(schema.campaigns).order_by(schema.campaigns.c.created, schema.campaigns.c.name)
    for campaign in readable(connection, CampaignRecord, query):
        shown = None if schema.outbox.name in tables else _shown(connection, campaign.name)
        if not tables & {schema.events.name, schema.products.name}:
            found += _own(connection, campaign, shown)
        found += _trials(connection, campaign, shown, trials, whole=schema.trials.name not in tables)
    return found


def _gaps(connection: Connection) -> Iterator[str]:
    """Missing rows, found by gaps in the ids: ids count the rows of a table from 1, and none is ever deleted."""
    for table in _NUMBERED:
        query = select(func.count(), func.min(table.c.id), func.max(table.c.id))
        count, least, greatest = connection.execute(query).one()
        if count and (least, greatest) != (1, count):
            yield f"The rows of {table.name} are numbered from {least} to {greatest}, but there are {count}."


def _shown(connection: Connection, campaign: str) -> Shown:
    table = schema.outbox
    query = select(table).where(table.c.campaign == campaign).order_by(table.c.id)
    names = {"trial": "id", "surrogate": "iteration"}
    items = readable(connection, OutboxItem, query)
    return {(item.kind, str(item.payload.get(names.get(item.kind, "name")))): item.payload for item in items}


def _own(connection: Connection, campaign: CampaignRecord, shown: Shown | None) -> Iterator[str]:
    """Contradictions in the rows of a campaign itself and of its steps' products, one sentence each."""
    name, products, events = campaign.name, schema.products, schema.events
    if campaign.digest != digest_of(campaign.spec):
        yield f"The specification of campaign {name} does not have the digest {campaign.digest} stored with it."
    query = select(events).where(events.c.campaign == name, events.c.trial.is_(None)).order_by(events.c.id)
    history = readable(connection, Event, query)
    if [event.details.get("digest") for event in history if event.action == "create"] != [campaign.digest]:
        yield f"The history of campaign {name} does not begin with its creation under the digest {campaign.digest}."
    ended = [event.reason for event in history if event.action == "finish"]
    if ended != [reason for reason in (campaign.finished,) if reason is not None]:
        yield f"Campaign {name} has ended by {campaign.finished!r}, but its history says {ended}."
    noted = [event.details for event in history if event.action == "note"]
    made = readable(connection, Product, select(products).where(products.c.campaign == name))
    said = {(each.get("step"), each.get("iteration")): each.get("digest") for each in noted}
    for product in made:
        if said.pop((product.step, product.iteration), None) != product.digest:
            yield f"What {product.step} {product.iteration} of {name} made is not what the history says of it."
    yield from (f"The history of {name} tells of {step} {iteration}, which is gone." for step, iteration in said)
    yield from () if shown is None else _copies(campaign, [p for p in made if p.step == "train"], shown)


def _copies(campaign: CampaignRecord, models: Sequence[Product], shown: Shown) -> Iterator[str]:
    begun = campaign.model_copy(update={"finished": None})
    told: list[tuple[str, str, Record]] = [("campaign", campaign.name, begun)]
    told += [("finish", campaign.name, campaign)] if campaign.finished is not None else []
    told += [("surrogate", str(model.iteration), model) for model in models]
    for kind, which, record in told:
        if not _is_copy(shown.get((kind, which)), record):
            yield f"What was put down for tracking of {campaign.name} ({kind} {which}) is not what the ledger holds."


def _is_copy(payload: Mapping[str, Any] | None, record: Record) -> bool:
    try:
        return payload is not None and type(record).model_validate(payload) == record
    except ValueError:
        return False


def _trials(
    connection: Connection, campaign: CampaignRecord, shown: Shown | None, spoilt: Collection[str], *, whole: bool
) -> Iterator[str]:
    table = schema.trials
    trials = readable(
        connection, Trial, select(table).where(table.c.campaign == campaign.name).order_by(table.c.number)
    )
    if whole and [trial.number for trial in trials] != list(range(1, len(trials) + 1)):
        yield f"The trials of {campaign.name} are not numbered from 1 on without a gap: some are gone."
    settled = _before_upgrade(connection, campaign.name)
    sound = [trial for trial in trials if trial.id not in spoilt]
    for start in range(0, len(sound), _AT_ONCE):
        for rows in _rows(connection, sound[start : start + _AT_ONCE], shown, settled):
            yield from disagreements(rows, campaign)


def _before_upgrade(connection: Connection, name: str) -> Mapping[str, Spent]:
    """Spending of trials from before the campaign's upgrade from schema 1, whose events do not record it."""
    events = schema.events
    query = select(events).where(events.c.campaign == name, events.c.action == "upgrade").order_by(events.c.id)
    try:
        found = [event.details["spent"].items() for event in readable(connection, Event, query)]
        return {trial: (float(spent), float(seconds)) for each in found for trial, (spent, seconds) in each}
    except _ODD:
        return {}


def _rows(
    connection: Connection, trials: Sequence[Trial], shown: Shown | None, settled: Mapping[str, Spent]
) -> Iterator[Rows]:
    """All rows of some trials, in one statement a table."""

    def of(kind: type[R], table: Table) -> Mapping[str, tuple[R, ...]]:
        query: Select[Any] = select(table).where(table.c.trial.in_([trial.id for trial in trials]))
        records = readable(connection, kind, query.order_by(table.c.trial, table.c.id))
        return {trial: tuple(found) for trial, found in groupby(records, key=lambda record: str(record.trial))}

    events, results, approvals = of(Event, schema.events), of(Result, schema.results), of(Approval, schema.approvals)
    for trial in trials:
        told = trial.model_dump(mode="json") if shown is None else shown.get(("trial", trial.id))
        found = (events.get(trial.id, ()), results.get(trial.id, ()), approvals.get(trial.id, ()))
        yield Rows(trial, *found, told, settled.get(trial.id, (0.0, 0.0)))
