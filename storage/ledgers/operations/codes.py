"""Code that approvals cover: stored once for each campaign, in its history, and referred to by its digest.

An approval's event has the digest (``details.code``). An event ``code`` of the campaign, written before it in the same
transaction, has the files.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, select

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event, record_of
from fieldcraft.storage.records import Event

_DIGEST = (
    select(schema.events.c.details["code"].as_string())
    .where(
        schema.events.c.trial == schema.approvals.c.trial,
        schema.events.c.version == schema.approvals.c.version,
        schema.events.c.action == "approve",
    )
    .scalar_subquery()
)
GRANTED = select(schema.approvals, _DIGEST.label("code"))
"""Approvals with the digest of the code that each covers."""
# By an expression: SQLite else reads all events of the campaign, and those that are of no trial are few.
_KNOWN = select(schema.events.c.details).where(
    schema.events.c.campaign + "" == bindparam("campaign"),
    schema.events.c.trial.is_(None),
    schema.events.c.action == "code",
)

# By the index of a campaign's events: the latest approval is among the last of them.
_LATEST = (
    select(schema.events)
    .where(schema.events.c.campaign == bindparam("campaign"), schema.events.c.action == "approve")
    .order_by(schema.events.c.id.desc())
    .limit(1)
)


def latest(connection: Connection, campaign: str) -> Event | None:
    """The latest approval event of a campaign."""
    row = connection.execute(_LATEST, {"campaign": campaign}).mappings().first()
    return None if row is None else record_of(Event, row)


def known(connection: Connection, campaign: str) -> Mapping[str, Code]:
    """Each code that was ever approved in a campaign, by its digest."""
    found = connection.execute(_KNOWN, {"campaign": campaign}).scalars()
    return {code.digest: code for details in found for code in (Code(files=details["files"]),)}


def kept(connection: Connection, campaign: str, code: Code, by: str) -> str:
    """Digest of a code, which is stored unless the campaign has it."""
    before = latest(connection, campaign)
    if before is not None and before.details.get("code") == code.digest:
        return code.digest
    if code.digest not in known(connection, campaign):
        details = {"digest": code.digest, "files": dict(code.files)}
        add_event(connection, campaign, "code", by, f"{len(code.files)} source files approved", details=details)
    return code.digest


def difference(connection: Connection, campaign: str, approved: str | None, code: Code | None) -> str:
    """Difference between the approved code and the code that would run, in words."""
    before = known(connection, campaign).get(approved or "")
    if before is None or code is None:
        return "it does not say which" if approved is None else "which one that is was not said"
    return f"{', '.join(before.differing(code))} changed since"
