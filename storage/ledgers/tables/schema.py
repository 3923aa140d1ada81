"""Tables of the ledger, schema 2: one place, portable SQL.

Enumerations are stored by name, mappings as JSON, times as seconds since the epoch. Rows are
never deleted. Only ``store.format`` (by a seal), ``campaigns.finished``, the moving columns of a trial (its design and
cost, too, where a person edits it), ``approvals.voided``, the marks of outbox and notices and the holder of a lease
are ever updated.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    column,
    func,
    select,
    table,
)

SCHEMA_VERSION = 2
FORMAT = "fieldcraft-ledger"
SEALED = "fieldcraft-ledger, sealed"  # its campaigns were moved

metadata = MetaData()
_json = JSON(none_as_null=True)
_double = Float(53)
# As wide on PostgreSQL as on SQLite, so that what one holds the other takes. Ledgers there that were made before this
# keep the 32 bits they have and refuse what is longer; nothing that is read depends on it, so the schema is the same.
_whole = Integer().with_variant(BigInteger(), "postgresql")


def _numbered(name: str) -> Column[int]:
    """An id that counts rows: without a gap, and in the order of commits, since writers take turns.

    A sequence of the database would also count rows that were rolled back, and would have to be set after a copy.
    """
    highest = func.coalesce(func.max(column("id", Integer)), 0)
    following = select(highest + 1).select_from(table(name))
    return Column("id", _whole, primary_key=True, autoincrement=True, default=following.scalar_subquery())


store = Table(
    "store",
    metadata,
    Column("format", String(40), primary_key=True),
    Column("schema_version", Integer, nullable=False),
    Column("created", _double, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("spec", _json, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("limits", _json, nullable=False),
    Column("environment", _json, nullable=False),
    Column("created", _double, nullable=False),
    Column("finished", Text),
)

trials = Table(
    "trials",
    metadata,
    Column("id", String(120), primary_key=True),
    Column("campaign", ForeignKey("campaigns.name"), nullable=False),
    Column("number", _whole, nullable=False),
    Column("iteration", _whole, nullable=False),
    Column("slot", _whole, nullable=False),
    Column("revision", _whole, nullable=False),
    Column("design", _json, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("priority", _whole, nullable=False),
    Column("state", String(20), nullable=False),
    Column("version", _whole, nullable=False),
    Column("attempt", _whole, nullable=False),
    Column("origin", _json, nullable=False),
    Column("handle", _json),
    Column("outputs", _json),
    Column("field", _json),
    Column("ran", _json),
    Column("failure", String(20)),
    Column("cost", _double, nullable=False),
    Column("spent", _double, nullable=False),
    Column("seconds", _double, nullable=False),
    Column("heard", _double),
    Column("created", _double, nullable=False),
    Column("updated", _double, nullable=False),
    UniqueConstraint("campaign", "number"),
    UniqueConstraint("campaign", "iteration", "slot"),
    Index("trials_by_state", "campaign", "state"),
)

events = Table(
    "events",
    metadata,
    _numbered("events"),
    Column("campaign", ForeignKey("campaigns.name"), nullable=False),
    Column("trial", ForeignKey("trials.id")),
    Column("action", String(20), nullable=False),
    Column("before", String(20)),
    Column("after", String(20)),
    Column("version", _whole),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("details", _json, nullable=False),
    Column("created", _double, nullable=False),
    Index("events_by_campaign", "campaign", "id"),
    Index("events_by_trial", "trial", "id"),
    sqlite_autoincrement=True,
)

results = Table(
    "results",
    metadata,
    _numbered("results"),
    Column("trial", ForeignKey("trials.id"), nullable=False, index=True),
    Column("attempt", _whole, nullable=False),
    Column("outputs", _json, nullable=False),
    Column("field", _json),
    Column("ran", _json),
    Column("digest", String(64), nullable=False),
    Column("verdict", String(20), nullable=False),
    Column("replaces", ForeignKey("results.id")),
    Column("by", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("details", _json, nullable=False),
    Column("created", _double, nullable=False),
    sqlite_autoincrement=True,
)

approvals = Table(
    "approvals",
    metadata,
    _numbered("approvals"),
    Column("trial", ForeignKey("trials.id"), nullable=False, index=True),
    Column("revision", _whole, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("by", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("attempts", _whole, nullable=False),
    Column("version", _whole, nullable=False),
    Column("expires", _double),
    Column("created", _double, nullable=False),
    Column("voided", Text),
    sqlite_autoincrement=True,
)

products = Table(
    "products",
    metadata,
    Column("campaign", ForeignKey("campaigns.name"), primary_key=True),
    Column("iteration", _whole, primary_key=True),
    Column("step", String(20), primary_key=True),
    Column("payload", _json, nullable=False),
    Column("reference", _json),
    Column("created", _double, nullable=False),
)

# No foreign key: the exporter's lease belongs to no campaign. A released lease keeps its row, and with it the token.
leases = Table(
    "leases",
    metadata,
    Column("campaign", String(100), primary_key=True),
    Column("token", _whole, nullable=False),
    Column("host", Text),
    Column("pid", _whole),
    Column("started", _double),
    Column("acquired", _double),
)

outbox = Table(
    "outbox",
    metadata,
    _numbered("outbox"),
    Column("campaign", ForeignKey("campaigns.name"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("payload", _json, nullable=False),
    Column("created", _double, nullable=False),
    Column("exported", _double),
    Column("run_id", Text),
    Index("outbox_pending", "exported", "id"),
    sqlite_autoincrement=True,
)

notices = Table(
    "notices",
    metadata,
    _numbered("notices"),
    Column("campaign", ForeignKey("campaigns.name"), nullable=False),
    Column("event", String(40), nullable=False),
    Column("key", String(200), nullable=False),
    Column("payload", _json, nullable=False),
    Column("created", _double, nullable=False),
    Column("told", _double),
    Column("tries", _whole, nullable=False),
    UniqueConstraint("campaign", "key"),
    sqlite_autoincrement=True,
)
