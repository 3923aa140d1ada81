"""Conversion between rows and records, and insertion of new rows."""

import time
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping, Select, bindparam, insert, select

from fieldcraft.storage.ledger.errors import InvalidRecord, UnknownCampaign, UnknownTrial
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.records import CampaignRecord, Expect, Notice, Product, Record, Step, Trial, trial_digest

R = TypeVar("R", bound=Record)

# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_CAMPAIGN = select(schema.campaigns).where(schema.campaigns.c.name == bindparam("campaign"))
_NAMED = select(schema.campaigns.c.name).where(schema.campaigns.c.name == bindparam("campaign"))
_TRIAL = select(schema.trials).where(schema.trials.c.id == bindparam("trial"))
_PRODUCT = select(schema.products).where(
    schema.products.c.campaign == bindparam("campaign"),
    schema.products.c.iteration == bindparam("iteration"),
    schema.products.c.step == bindparam("step"),
)
_NEW_TRIAL = insert(schema.trials)
_NEW_EVENT = insert(schema.events).inline()
_NEW_ITEM = insert(schema.outbox).inline()


def record_of(kind: type[R], row: RowMapping) -> R:
    """Make a record of a row that has its fields; other columns are ignored."""
    return kind(**{name: row[name] for name in kind.model_fields})


def one(connection: Connection, query: Select[Any], **values: Any) -> RowMapping | None:
    """First row of ``query``, with these values of its parameters, as a mapping, or None."""
    return connection.execute(query, values).mappings().first()


def many(connection: Connection, kind: type[R], query: Select[Any], **values: Any) -> tuple[R, ...]:
    """All rows of ``query`` as records; the columns are the record's fields, and others are ignored.

    Args:
        connection: Where to ask.
        kind: Kind of the records.
        query: The query.
        values: Values of its parameters.
    """
    rows = connection.execute(query, values)
    places = {name: place for place, name in enumerate(rows.keys()) if name in kind.model_fields}
    return tuple(kind.model_validate({name: row[place] for name, place in places.items()}) for row in rows)


def get_campaign(connection: Connection, name: str) -> CampaignRecord:
    """The campaign of that name; raises ``UnknownCampaign`` with the known names."""
    row = connection.execute(_CAMPAIGN, {"campaign": name}).mappings().first()
    if row is None:
        names = connection.execute(select(schema.campaigns.c.name).order_by(schema.campaigns.c.name)).scalars()
        known = ", ".join(map(str, names)) or "none"
        raise UnknownCampaign(f"The ledger holds no campaign {name!r}. Known: {known}.")
    return record_of(CampaignRecord, row)


def require_campaign(connection: Connection, name: str) -> None:
    """Raise ``UnknownCampaign`` unless there is a campaign of that name; its specification is not read.

    Campaigns are never deleted, so a database connection looks for each of them once.
    """
    seen = connection.info.setdefault("campaigns", set())
    if name in seen:
        return
    if connection.execute(_NAMED, {"campaign": name}).first() is None:
        get_campaign(connection, name)
    seen.add(name)


def get_trial(connection: Connection, trial_id: str) -> Trial:
    """The trial of that id; raises ``UnknownTrial``."""
    row = connection.execute(_TRIAL, {"trial": trial_id}).mappings().first()
    if row is None:
        raise UnknownTrial(
            f"The ledger holds no trial {trial_id!r}. A trial is named CAMPAIGN-NUMBER, such as heat-0007: `fieldcraft "
            "queue` lists those that wait, `fieldcraft export CAMPAIGN --csv FILE` all."
        )
    return record_of(Trial, row)


def get_product(connection: Connection, campaign: str, iteration: int, step: Step) -> Product | None:
    """Product of a step in that iteration, or None."""
    row = one(connection, _PRODUCT, campaign=campaign, iteration=iteration, step=step)
    return None if row is None else record_of(Product, row)


def add_event(
    connection: Connection,
    campaign: str,
    action: str,
    by: str,
    reason: str,
    trial: Trial | None = None,
    before: Expect | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add a line of history to the transaction.

    Args:
        connection: The open transaction.
        campaign: Its campaign.
        action: What was done, one of those named at ``Event.action``.
        by: Who did it.
        reason: Why.
        trial: The trial as it is afterwards, when the event is about one.
        before: Its state and version before, unless it is new.
        details: Further information as JSON.
    """
    values = {
        "campaign": campaign,
        "trial": trial and trial.id,
        "action": action,
        "before": before and before[0].value,
        "after": trial and trial.state.value,
        "version": trial and trial.version,
        "by": by,
        "reason": reason,
        "details": dict(details or {}),
        "created": time.time(),
    }
    connection.execute(_NEW_EVENT, values)


def add_outbox(connection: Connection, campaign: str, kind: str, record: Record) -> None:
    """Add an outbox item for tracking to the transaction."""
    values = {"campaign": campaign, "kind": kind, "payload": record.model_dump(mode="json"), "created": time.time()}
    connection.execute(_NEW_ITEM, values)


def checked(kind: type[R], what: str, /, **values: object) -> R:
    """Make a record of values from outside; an error names the value that may not be stored."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise InvalidRecord(
            f"{what}: {where} = {problem['input']!r} cannot be stored ({problem['msg']}). Nothing was written."
        ) from error


def add_notice(connection: Connection, campaign: str, event: str, key: str, payload: Mapping[str, Any]) -> Notice:
    """Add a notice for a person to the transaction, unless the campaign has that key already."""
    table = schema.notices
    row = one(connection, select(table).where(table.c.campaign == campaign, table.c.key == key))
    if row is not None:
        return record_of(Notice, row)
    values = {"campaign": campaign, "event": event, "key": key, "payload": payload}
    notice = checked(Notice, f"Notice {key!r}", id=0, **values, created=time.time(), told=None, tries=0)
    stored = notice.model_dump(mode="json", exclude={"id"})
    number = connection.execute(insert(table).values(stored).returning(table.c.id)).scalar_one()
    return notice.model_copy(update={"id": number})


def insert_trial(
    connection: Connection, owner: CampaignRecord, number: int, iteration: int, slot: int, **values: object
) -> Trial:
    """Add a new trial to the transaction; ``values`` are the fields that differ between trials."""
    now = time.time()
    fixed: dict[str, object] = {"revision": 1, "priority": 0, "version": 1, "attempt": 0, "spent": 0.0, "seconds": 0.0}
    empty = dict.fromkeys(("handle", "outputs", "field", "ran", "failure", "heard"))
    trial = checked(
        Trial,
        f"Design {slot} of iteration {iteration} of {owner.name!r}",
        id=f"{owner.name}-{number:04d}",
        campaign=owner.name,
        number=number,
        iteration=iteration,
        slot=slot,
        **{**fixed, **empty, "digest": "0" * 64, "created": now, "updated": now, **values},
    )
    trial = trial.model_copy(update={"digest": trial_digest(trial.design, owner.digest, trial.level)})
    connection.execute(_NEW_TRIAL, trial.model_dump(mode="json"))
    return trial
