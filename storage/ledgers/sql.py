"""The ledger over any SQL database that SQLAlchemy speaks; a back end adds its engine, its errors and its own check."""

import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table, bindparam, insert, select, update
from sqlalchemy.exc import StatementError
from typing_extensions import override

from fieldcraft.storage.code import Code
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.ledger.contract import Ledger
from fieldcraft.storage.ledger.errors import InvalidRecord, LedgerError, SpecChanged
from fieldcraft.storage.ledgers.operations import approvals, custody, designs, leases, moves, results
from fieldcraft.storage.ledgers.operations.leases import EXPORTER
from fieldcraft.storage.ledgers.queries import SqlQueries, unstorable
from fieldcraft.storage.ledgers.tables import schema
from fieldcraft.storage.ledgers.tables.rows import (
    add_event,
    add_notice,
    add_outbox,
    checked,
    get_campaign,
    get_product,
    one,
    record_of,
)
from fieldcraft.storage.ledgers.tables.unreadable import FAULTS
from fieldcraft.storage.records import (
    UNLIMITED,
    CampaignRecord,
    Expect,
    FailureKind,
    FieldRef,
    Grant,
    Known,
    Lease,
    Level,
    Limits,
    Notice,
    Product,
    Proposal,
    Result,
    Step,
    Trial,
    TrialState,
    canonical,
    digest_of,
)

# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_NEW_PRODUCT = insert(schema.products)
_EXPORTED = update(schema.outbox).where(schema.outbox.c.id == bindparam("item"), schema.outbox.c.exported.is_(None))
_ON_SEALED = frozenset({"lease.release", "unseal", "take_over"})


class SqlLedger(SqlQueries, Ledger):
    """A ledger on an SQLAlchemy engine.

    A write goes through ``_transaction`` and a read through ``_query``, and no other way. Every write reads
    before it writes, so the engine must have the writers of a ledger (connections with the option ``write``) take
    turns: each has the ledger to itself from its first statement, and sees all that was committed before.
    """

    def __init__(self, engine: Engine, lease: Lease | None = None) -> None:
        super().__init__(engine)
        self._lease = lease

    @contextmanager
    def _transaction(self, name: str) -> Iterator[Connection]:
        """One write transaction, named for its two commit points; any exception rolls it back."""
        try:
            with self._engine.connect().execution_options(write=True) as connection:
                if self._lease is not None:
                    leases.hold(connection, self._lease)
                if name not in _ON_SEALED and not self._makes_passes:
                    custody.require_unsealed(connection)
                yield connection
                commit_point(f"ledger.{name}.before")
                self._commit(connection)
                commit_point(f"ledger.{name}.after")
        except (OverflowError, UnicodeEncodeError) as error:
            raise unstorable(error) from error
        except FAULTS as error:
            self._raise(error)
        except StatementError as error:  # a parameter that could not be made ready for the database
            raise InvalidRecord(f"A value is not JSON, so nothing was written: {error.orig}.") from error

    def _commit(self, connection: Connection) -> None:
        connection.commit()

    @property
    def _makes_passes(self) -> bool:
        """True if a campaign's lease fences this ledger; on a sealed ledger only the sealing process holds one."""
        return self._lease is not None and leases.of_passes(self._lease.campaign)

    @override
    def create_campaign(
        self,
        name: str,
        spec: Mapping[str, Any],
        digest: str,
        environment: Mapping[str, Any],
        by: str,
        limits: Limits = UNLIMITED,
    ) -> CampaignRecord:
        what = f"Campaign {name!r}"
        values = {"spec": spec, "digest": digest, "limits": limits, "environment": environment}
        campaign = checked(CampaignRecord, what, name=name, **values, created=time.time(), finished=None)
        try:
            canonical(environment)
            found = digest_of(spec)
        except (ValueError, TypeError) as error:
            raise InvalidRecord(f"{what}: its specification or environment is not JSON ({error}).") from error
        if digest != found:
            raise InvalidRecord(f"{what}: the digest {digest} is not that of its specification, {found}.")
        with self._transaction("create") as connection:
            row = one(connection, select(schema.campaigns).where(schema.campaigns.c.name == name))
            if row is not None:
                return _unchanged(record_of(CampaignRecord, row), digest)
            connection.execute(insert(schema.campaigns).values(campaign.model_dump(mode="json")))
            add_event(connection, name, "create", by, "", details={"digest": digest})
            add_outbox(connection, name, "campaign", campaign)
        return campaign

    @override
    def finish(self, name: str, reason: str, by: str) -> CampaignRecord:
        table = schema.campaigns
        with self._transaction("finish") as connection:
            campaign = get_campaign(connection, name)
            if campaign.finished is not None:
                return campaign
            connection.execute(update(table).where(table.c.name == name).values(finished=reason))
            campaign = get_campaign(connection, name)
            add_event(connection, name, "finish", by, reason)
            add_outbox(connection, name, "finish", campaign)
            add_notice(connection, name, "campaign ended", "ended", {"reason": reason})
        return campaign

    @override
    def acquire(
        self, name: str, break_lease: bool = False, due: float | None = None, held: Lease | None = None
    ) -> Lease:
        with self._transaction("lease.acquire") as connection:
            return leases.acquire(connection, name, break_lease, due, held)

    @override
    def release(self, lease: Lease, done: bool = True) -> None:
        # Unfenced: one that was lost needs no release.
        with type(self)(self._engine)._transaction("lease.release") as connection:
            leases.release(connection, lease, done)

    @override
    def fenced(self, lease: Lease) -> Self:
        return type(self)(self._engine, lease)

    @override
    def acquire_exporter(self, break_lease: bool = False) -> Lease:
        return self.acquire(EXPORTER, break_lease)

    @override
    def acquire_trainer(self, campaign: str, break_lease: bool = False) -> Lease:
        with self._transaction("lease.acquire") as connection:
            get_campaign(connection, campaign)
            return leases.acquire(connection, leases.trainer_of(campaign), break_lease, None)

    @override
    def give(self, campaign: str, trials: Collection[str], out: Collection[str]) -> None:
        with self._transaction("lease.give") as connection:
            leases.give(connection, campaign, trials, out)

    @override
    def propose(self, campaign: str, iteration: int, proposals: Sequence[Proposal], by: str) -> tuple[Trial, ...]:
        with self._transaction("propose") as connection:
            return designs.propose(connection, campaign, iteration, proposals, by)

    @override
    def adopt(self, campaign: str, known: Sequence[Known], digest: str, algorithm: str, by: str) -> tuple[Trial, ...]:
        with self._transaction("adopt") as connection:
            return designs.adopt(connection, campaign, known, digest, algorithm, by)

    @override
    def approve(
        self,
        trial_id: str,
        expect: Expect,
        digest: str,
        by: str,
        comment: str,
        policy: str,
        attempts: int,
        expires: float | None = None,
        code: Code | None = None,
    ) -> Trial:
        grant = checked(Grant, f"Approval of {trial_id}", trial=trial_id, expect=expect, digest=digest)
        return self.approve_all([grant], by, comment, policy, attempts, expires, code)[0]

    @override
    def approve_all(
        self,
        grants: Sequence[Grant],
        by: str,
        comment: str,
        policy: str,
        attempts: int,
        expires: float | None = None,
        code: Code | None = None,
    ) -> tuple[Trial, ...]:
        leave = approvals.Leave(by, comment, policy, attempts, expires, code)
        with self._transaction("approve") as connection:
            return approvals.approve_all(connection, grants, leave)

    @override
    def reject_all(self, grants: Sequence[Grant], by: str, reason: str) -> tuple[Trial, ...]:
        with self._transaction("reject") as connection:
            return moves.reject_all(connection, grants, by, reason)

    @override
    def edit(
        self, trial_id: str, expect: Expect, design: Mapping[str, Level], cost: float, by: str, reason: str
    ) -> Trial:
        with self._transaction("edit") as connection:
            return designs.edit(connection, trial_id, expect, design, cost, by, reason)

    @override
    def prioritise(self, trial_id: str, priority: int, by: str, reason: str, revision: int | None = None) -> Trial:
        with self._transaction("prioritise") as connection:
            return designs.prioritise(connection, trial_id, priority, by, reason, revision)

    @override
    def pick(self, trial_id: str, expect: Expect, by: str, reason: str, how: Mapping[str, Any]) -> None:
        with self._transaction("pick") as connection:
            designs.pick(connection, trial_id, expect, by, reason, how)

    @override
    def move(
        self,
        trial_id: str,
        to: TrialState,
        expect: Expect,
        by: str,
        reason: str,
        handle: Mapping[str, Any] | None = None,
        failure: FailureKind | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        code: Code | None = None,
    ) -> Trial:
        with self._transaction(f"move.{TrialState(to)}") as connection:
            return moves.move(connection, trial_id, to, expect, by, reason, handle, failure, cost, seconds, code)

    @override
    def hear(self, trial_id: str, attempt: int) -> Trial:
        with self._transaction("hear") as connection:
            return moves.hear(connection, trial_id, attempt)

    @override
    def record(
        self,
        trial_id: str,
        expect: Expect,
        outputs: Mapping[str, float],
        field: FieldRef | None,
        by: str,
        source: str,
        details: Mapping[str, Any],
        attempt: int | None = None,
        ran: Mapping[str, Level] | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        partial: bool = False,
    ) -> tuple[Trial, Result]:
        given = results.GivenResult(outputs, field, ran, source, details)
        with self._transaction("record") as connection:
            return results.record(connection, trial_id, expect, given, by, attempt, cost, seconds, partial=partial)

    @override
    def correct(
        self,
        trial_id: str,
        expect: Expect,
        replaces: int,
        outputs: Mapping[str, float] | None,
        field: FieldRef | None,
        by: str,
        reason: str,
        details: Mapping[str, Any],
        ran: Mapping[str, Level] | None = None,
        cost: float | None = None,
        seconds: float | None = None,
    ) -> tuple[Trial, Result]:
        given = results.GivenResult(outputs, field, ran, "person", details)
        with self._transaction("correct") as connection:
            return results.correct(connection, trial_id, expect, replaces, given, by, reason, cost, seconds)

    @override
    def note(
        self, campaign: str, iteration: int, step: Step, payload: Mapping[str, Any], reference: FieldRef | None
    ) -> Product:
        what = f"Product of step {step!r} of iteration {iteration} of {campaign!r}"
        values = {"campaign": campaign, "iteration": iteration, "step": step, "payload": payload}
        product = checked(Product, what, **values, reference=reference, created=time.time())
        try:
            canonical(payload)
        except (ValueError, TypeError) as error:
            raise InvalidRecord(f"{what}: its payload is not JSON ({error}).") from error
        with self._transaction(f"note.{step}") as connection:
            get_campaign(connection, campaign)
            if (existing := get_product(connection, campaign, iteration, step)) is not None:
                return existing
            connection.execute(_NEW_PRODUCT, product.model_dump(mode="json"))
            details = {"step": step, "iteration": iteration, "digest": product.digest}
            add_event(connection, campaign, "note", "pass", "", details=details)
            if step == "train":
                add_outbox(connection, campaign, "surrogate", product)
        return product

    @override
    def exported(self, item_id: int, run_id: str | None) -> None:
        with self._transaction("outbox.exported") as connection:
            connection.execute(_EXPORTED, {"item": item_id, "exported": time.time(), "run_id": run_id})

    @override
    def notify(self, campaign: str, event: str, key: str, payload: Mapping[str, Any]) -> Notice:
        with self._transaction("notify") as connection:
            get_campaign(connection, campaign)
            return add_notice(connection, campaign, event, key, payload)

    @override
    def told(self, notice_id: int, success: bool) -> None:
        table = schema.notices
        waiting = update(table).where(table.c.id == notice_id, table.c.told.is_(None))
        with self._transaction("notice.told") as connection:
            connection.execute(waiting.values(told=time.time()) if success else waiting.values(tries=table.c.tries + 1))

    @override
    def copy_to(self, target: Ledger) -> None:
        assert isinstance(target, SqlLedger)  # every back end is
        with closing(self._rows()) as rows:
            if target.campaigns():
                raise LedgerError(
                    f"The ledger {target.shown} holds campaigns already. Nothing was copied; name another place."
                )
            with target._transaction("copy") as connection:
                custody.write_rows(connection, rows)

    def _rows(self) -> Generator[tuple[Table, custody.Rows], None, None]:
        """All rows of one instant; errors here are about this ledger and not about the one it is copied to."""
        with self._query() as connection:
            yield from custody.read_rows(connection)

    @override
    def take_over(self, by: str, reason: str, details: Mapping[str, Any]) -> None:
        with self._transaction("take_over") as connection:
            custody.take_over(connection, by, reason, details)

    @override
    def seal(self, to: str, leases: Sequence[Lease], by: str, reason: str) -> None:
        with self._transaction("seal") as connection:
            custody.seal(connection, to, leases, by, reason)

    @override
    def unseal(self, by: str, reason: str) -> None:
        with self._transaction("unseal") as connection:
            custody.unseal(connection, by, reason)

    @override
    def mend(self, campaign: str, by: str, reason: str, details: Mapping[str, Any]) -> None:
        with self._transaction("mend") as connection:
            custody.mend(connection, campaign, by, reason, details)

    @override
    def forget_exports(self, campaign: str) -> None:
        with self._transaction("outbox.forgotten") as connection:
            get_campaign(connection, campaign)
            custody.forget_exports(connection, campaign)

    @override
    def close(self) -> None:
        self._engine.dispose()


def _unchanged(stored: CampaignRecord, digest: str) -> CampaignRecord:
    if stored.digest != digest:
        raise SpecChanged(
            f"The campaign {stored.name!r} was created with another specification (digest {stored.digest}, now "
            f"{digest}). Restore the file it was created from, or give the changed one a new name.",
            stored=stored.spec,
        )
    return stored
