"""Leases: which process may write for a campaign, detection of a dead holder, and the fence against a late one."""

import os
import socket
import time
from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from fieldcraft.storage.ledger.errors import LeaseHeld, LeaseLost, PassServed
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import add_event, get_campaign, many, one, record_of
from fieldcraft.storage.processes import is_alive, start_time
from fieldcraft.storage.records import Lease, digest_of

EXPORTER = ":exporter"  # the lease under which one process exports; no campaign can bear this name
TRAINER = ":train:"  # how the leases begin under which a process that makes no pass trains a campaign's model
_ASKED = ":asked:"  # how the leases begin that show to which process a trial was given
_HELD = select(schema.leases).where(schema.leases.c.campaign == bindparam("campaign")).with_for_update()
_LONGEST = 60  # characters of a campaign's name that its trainer's lease shows; the column holds 100


def acquire(
    connection: Connection, name: str, break_lease: bool, due: float | None, held: Lease | None = None
) -> Lease:
    """Take the lease for this process, from a dead holder if need be; see ``Ledger.acquire``."""
    if of_passes(name):
        get_campaign(connection, name)
    table = schema.leases
    row = one(connection, _HELD, campaign=name)
    holder = None if row is None or row["host"] is None else record_of(Lease, row)
    if held is not None and (holder is None or holder.token != held.token):
        now = "free" if holder is None else f"held by pid {holder.pid} on {holder.host} (token {holder.token})"
        raise LeaseLost(
            f"The lease on {name!r} of pid {held.pid} on {held.host} (token {held.token}) is none any more: it is "
            f"{now}. It was left so; look again who holds it."
        )
    if holder is not None and not break_lease and lives(holder):
        raise LeaseHeld(_held(holder), holder=holder)
    began = None if row is None else row["acquired"]
    # A pass that began in the future was made under a clock that has been set back since: it served nothing.
    if holder is None and due is not None and began is not None and due < began <= time.time():
        raise PassServed(f"A pass over {name!r} that began {began - due:.1f} s after this one was due has served it.")
    lease = _mine(name, token=1 if row is None else row["token"] + 1)
    if row is None:
        connection.execute(insert(table).values(lease.model_dump()))
    else:
        connection.execute(update(table).where(table.c.campaign == name).values(lease.model_dump()))
    if holder is not None and of_passes(name):
        reason = "the lease was broken" if break_lease else "its holder no longer lives"
        details = {"from": holder.model_dump(), "to": lease.model_dump()}
        add_event(connection, name, "lease", f"pid {lease.pid} on {lease.host}", reason, details=details)
    return lease


def holder(connection: Connection, name: str) -> Lease | None:
    """The lease of a process that may still be at work; see ``Ledger.holder``."""
    row = one(connection, select(schema.leases).where(schema.leases.c.campaign == name))
    lease = None if row is None or row["host"] is None else record_of(Lease, row)
    return lease if lease is not None and lives(lease) else None


def of_passes(name: str) -> bool:
    """True if a lease is for the passes of a campaign, and no other."""
    return not name.startswith((EXPORTER, TRAINER, _ASKED))


def is_work(name: str) -> bool:
    """True if whoever holds a lease computes or writes, and does not only wait for a result."""
    return not name.startswith(_ASKED)


def trainer_of(campaign: str) -> str:
    """Name of the lease under which a campaign's model is trained outside a pass."""
    return f"{TRAINER}{campaign[:_LONGEST]}:{digest_of(campaign)[:16]}"


def release(connection: Connection, lease: Lease, done: bool) -> None:
    """Free the lease if it is still the one given; the row keeps its token and, after finished passes, its time."""
    table = schema.leases
    ours = update(table).where(table.c.campaign == lease.campaign, table.c.token == lease.token)
    connection.execute(ours.values(host=None, pid=None, started=None, **({} if done else {"acquired": None})))


def hold(connection: Connection, lease: Lease) -> None:
    """Raise ``LeaseLost`` unless the lease is still held; called in the transaction of every fenced write."""
    row = one(connection, _HELD, campaign=lease.campaign)
    holder = None if row is None or row["host"] is None else record_of(Lease, row)
    if holder is None or holder.token != lease.token:
        raise LeaseLost.to(lease, holder)


def give(connection: Connection, campaign: str, trials: Collection[str], out: Collection[str]) -> None:
    """Give trials to this process; see ``Ledger.give``."""
    table, names = schema.leases, {_given(campaign, trial) for trial in trials}
    kept = {_given(campaign, trial) for trial in out} - names
    known = select(table.c.campaign).where(table.c.campaign.startswith(_given(campaign), autoescape=True))
    for name in connection.execute(known).scalars().all():
        if name not in kept:
            connection.execute(delete(table).where(table.c.campaign == name))
    for name in sorted(names):
        connection.execute(insert(table).values(_mine(name, token=1).model_dump()))


def given(connection: Connection, campaign: str) -> frozenset[str]:
    """Trials that others were given; see ``Ledger.given``."""
    table, begin = schema.leases, _given(campaign)
    rows = select(table).where(table.c.campaign.startswith(begin, autoescape=True), table.c.host.is_not(None))
    own = _mine("", token=1)
    return frozenset(
        f"{campaign}-{holder.campaign.removeprefix(begin)}"
        for holder in many(connection, Lease, rows)
        if (holder.host, holder.pid, holder.started) != (own.host, own.pid, own.started) and lives(holder)
    )


def _given(campaign: str, trial: str = "") -> str:
    """Name of the lease on a trial; what those of a campaign begin with."""
    return f"{_ASKED}{digest_of(campaign)[:16]}:{trial.removeprefix(f'{campaign}-')}"


def lives(holder: Lease) -> bool:
    """True if the process that took a lease may still be at work; always True for a process of another host."""
    if holder.host != socket.gethostname():
        return True
    return is_alive(holder.pid, holder.started)


def _mine(name: str, token: int) -> Lease:
    return Lease(
        campaign=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=start_time(os.getpid()),
        token=token,
        acquired=time.time(),
    )


def _held(holder: Lease) -> str:
    since = datetime.fromtimestamp(holder.acquired, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    work = f"is being worked on by pid {holder.pid} on host {holder.host}, since {since}. Wait for it to end; "
    if holder.campaign.startswith(TRAINER):
        shown = holder.campaign.removeprefix(TRAINER).rpartition(":")[0]
        return f"The model of {shown!r} {work}if that machine is gone for good, cancel its flow run in Prefect."
    what = "The export to tracking" if holder.campaign == EXPORTER else f"The campaign {holder.campaign!r}"
    return f"{what} {work}if that machine is gone for good, repeat with --break-lease."
