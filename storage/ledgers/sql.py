"""The ledger over any SQL database that SQLAlchemy speaks; a back end adds its engine, its errors and its own check."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from sqlalchemy import Connection, Engine, RowMapping, insert, select, update
from sqlalchemy.exc import DBAPIError, StatementError

from storage.ledger import EXPORTER, InvalidRecord, LedgerError, NotALedger, SpecChanged
from storage.ledgers import audit, leases, schema, trials
from storage.ledgers.rows import add_event, add_outbox, checked, get_campaign, get_trial, many, one, record_of
from storage.points import commit_point
from storage.records import (
    Approval,
    Campaign,
    Event,
    Expect,
    FailureKind,
    FieldRef,
    Lease,
    OutboxItem,
    Product,
    Proposal,
    Result,
    Step,
    Trial,
    TrialState,
    canonical,
    digest_of,
)


class SqlLedger(ABC):
    """A ``storage.ledger.Ledger`` on an SQLAlchemy engine; the contract is written there.

    A write goes through ``_transaction`` and a read through ``_reading``, and through nothing else.
    """

    def __init__(self, engine: Engine, lease: Lease | None = None) -> None:
        self._engine = engine
        self._lease = lease

    @abstractmethod
    def _explain(self, error: DBAPIError) -> LedgerError:
        """Say in the ledger's terms what the database complained about, and the remedy."""

    @abstractmethod
    def _integrity(self, connection: Connection) -> list[str]:
        """What the database itself finds wrong with its files."""

    @contextmanager
    def _transaction(self, name: str) -> Iterator[Connection]:
        """One write transaction, named for its two commit points; rolled back by any exception."""
        try:
            with self._engine.connect().execution_options(write=True) as connection:
                if self._lease is not None:
                    leases.hold(connection, self._lease)
                yield connection
                commit_point(f"ledger.{name}.before")
                connection.commit()
                commit_point(f"ledger.{name}.after")
        except DBAPIError as error:
            raise self._explain(error) from error
        except StatementError as error:  # a parameter that could not be made ready for the database
            raise InvalidRecord(f"A value is not JSON, so nothing was written: {error.orig}.") from error

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """One read transaction: everything read in it is of one instant."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._explain(error) from error

    def create_campaign(
        self, name: str, spec: Mapping[str, Any], digest: str, environment: Mapping[str, Any], by: str
    ) -> Campaign:
        """Write a campaign down, or return the one there is."""
        what = f"Campaign {name!r}"
        values = {"spec": spec, "digest": digest, "environment": environment, "created": time.time(), "finished": None}
        campaign = checked(Campaign, what, name=name, **values)
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
                return _unchanged(record_of(Campaign, row), digest)
            connection.execute(insert(schema.campaigns).values(campaign.model_dump(mode="json")))
            add_event(connection, name, "create", by, "", details={"digest": digest})
            add_outbox(connection, name, "campaign", campaign)
        return campaign

    def campaign(self, name: str) -> Campaign:
        """Return the campaign of that name."""
        with self._reading() as connection:
            return get_campaign(connection, name)

    def campaigns(self) -> tuple[Campaign, ...]:
        """All campaigns, oldest first."""
        table = schema.campaigns
        with self._reading() as connection:
            return many(connection, Campaign, select(table).order_by(table.c.created, table.c.name))

    def finish(self, name: str, reason: str, by: str) -> Campaign:
        """Record why a campaign ended, once."""
        table = schema.campaigns
        with self._transaction("finish") as connection:
            campaign = get_campaign(connection, name)
            if campaign.finished is not None:
                return campaign
            connection.execute(update(table).where(table.c.name == name).values(finished=reason))
            campaign = get_campaign(connection, name)
            add_event(connection, name, "finish", by, reason)
            add_outbox(connection, name, "finish", campaign)
        return campaign

    def acquire(self, name: str, break_lease: bool = False) -> Lease:
        """Take the campaign's lease for this process."""
        with self._transaction("lease.acquire") as connection:
            return leases.acquire(connection, name, break_lease)

    def release(self, lease: Lease) -> None:
        """Give the lease back; unfenced, because one that was lost needs no release."""
        with type(self)(self._engine)._transaction("lease.release") as connection:
            leases.release(connection, lease)

    def holder(self, name: str) -> Lease | None:
        """Who makes passes over a campaign now."""
        with self._reading() as connection:
            return leases.holder(connection, name)

    def fenced(self, lease: Lease) -> Self:
        """Return this ledger with every write checked against ``lease``."""
        return type(self)(self._engine, lease)

    def acquire_exporter(self, break_lease: bool = False) -> Lease:
        """Take the lease of the one process that exports to tracking."""
        return self.acquire(EXPORTER, break_lease)

    def propose(self, campaign: str, iteration: int, proposals: Sequence[Proposal], by: str) -> tuple[Trial, ...]:
        """Write the trials of an iteration down, or return those there are."""
        with self._transaction("propose") as connection:
            return trials.propose(connection, campaign, iteration, proposals, by)

    def approve(
        self, trial_id: str, expect: Expect, digest: str, by: str, comment: str, policy: str, attempts: int
    ) -> Trial:
        """Approve exactly what ``digest`` names and move the trial to APPROVED."""
        with self._transaction("approve") as connection:
            return trials.approve(connection, trial_id, expect, digest, by, comment, policy, attempts)

    def move(
        self,
        trial_id: str,
        to: TrialState,
        expect: Expect,
        by: str,
        reason: str,
        handle: Mapping[str, Any] | None = None,
        failure: FailureKind | None = None,
    ) -> Trial:
        """Move a trial, if it still has the state and version expected."""
        with self._transaction(f"move.{TrialState(to)}") as connection:
            return trials.move(connection, trial_id, to, expect, by, reason, handle, failure)

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
    ) -> tuple[Trial, Result]:
        """Append a result and judge it."""
        with self._transaction("record") as connection:
            return trials.record(connection, trial_id, expect, outputs, field, by, source, details, attempt)

    def note(
        self, campaign: str, iteration: int, step: Step, payload: Mapping[str, Any], reference: FieldRef | None
    ) -> Product:
        """Write down what a step made, once."""
        what = f"Product of step {step!r} of iteration {iteration} of {campaign!r}"
        values = {"campaign": campaign, "iteration": iteration, "step": step, "payload": payload}
        product = checked(Product, what, **values, reference=reference, created=time.time())
        try:
            canonical(payload)
        except (ValueError, TypeError) as error:
            raise InvalidRecord(f"{what}: its payload is not JSON ({error}).") from error
        with self._transaction(f"note.{step}") as connection:
            get_campaign(connection, campaign)
            if (existing := _product(connection, campaign, iteration, step)) is not None:
                return existing
            connection.execute(insert(schema.products).values(product.model_dump(mode="json")))
            details = {"step": step, "iteration": iteration, "digest": product.digest}
            add_event(connection, campaign, "note", "pass", "", details=details)
            if step == "train":
                add_outbox(connection, campaign, "surrogate", product)
        return product

    def product(self, campaign: str, iteration: int, step: Step) -> Product | None:
        """What the step of that iteration made, or None."""
        with self._reading() as connection:
            get_campaign(connection, campaign)
            return _product(connection, campaign, iteration, step)

    def products(self, campaign: str) -> tuple[Product, ...]:
        """All products of a campaign, oldest first."""
        table = schema.products
        query = select(table).where(table.c.campaign == campaign)
        with self._reading() as connection:
            get_campaign(connection, campaign)
            return many(connection, Product, query.order_by(table.c.iteration, table.c.step))

    def trials(
        self, campaign: str, states: Collection[TrialState] | None = None, iteration: int | None = None
    ) -> tuple[Trial, ...]:
        """Trials of a campaign by number."""
        table = schema.trials
        query = select(table).where(table.c.campaign == campaign).order_by(table.c.number)
        if states is not None:
            query = query.where(table.c.state.in_([state.value for state in states]))
        if iteration is not None:
            query = query.where(table.c.iteration == iteration)
        with self._reading() as connection:
            get_campaign(connection, campaign)
            return many(connection, Trial, query)

    def trial(self, trial_id: str) -> Trial:
        """Return the trial of that id."""
        with self._reading() as connection:
            return get_trial(connection, trial_id)

    def history(self, campaign: str, trial: str | None = None) -> tuple[Event, ...]:
        """Events of a campaign, or of one of its trials, oldest first."""
        table = schema.events
        query = select(table).where(table.c.campaign == campaign).order_by(table.c.id)
        with self._reading() as connection:
            get_campaign(connection, campaign)
            if trial is not None:
                query = query.where(table.c.trial == get_trial(connection, trial).id)
            return many(connection, Event, query)

    def results(self, trial_id: str) -> tuple[Result, ...]:
        """All results of a trial, oldest first."""
        table = schema.results
        with self._reading() as connection:
            trial = get_trial(connection, trial_id)
            return many(connection, Result, select(table).where(table.c.trial == trial.id).order_by(table.c.id))

    def approvals(self, trial_id: str) -> tuple[Approval, ...]:
        """All approvals of a trial, oldest first."""
        table = schema.approvals
        with self._reading() as connection:
            trial = get_trial(connection, trial_id)
            return many(connection, Approval, select(table).where(table.c.trial == trial.id).order_by(table.c.id))

    def pending(self, campaign: str | None = None, limit: int = 1000) -> tuple[OutboxItem, ...]:
        """The oldest outbox items not exported yet."""
        table = schema.outbox
        query = select(table).where(table.c.exported.is_(None)).order_by(table.c.id).limit(limit)
        if campaign is not None:
            query = query.where(table.c.campaign == campaign)
        with self._reading() as connection:
            return many(connection, OutboxItem, query)

    def exported(self, item_id: int, run_id: str | None) -> None:
        """Mark an outbox item as exported."""
        table = schema.outbox
        first = update(table).where(table.c.id == item_id, table.c.exported.is_(None))
        with self._transaction("outbox.exported") as connection:
            connection.execute(first.values(exported=time.time(), run_id=run_id))

    def tracked(self, campaign: str) -> Mapping[str, str]:
        """Tracking runs by what they show."""
        table = schema.outbox
        query = select(table).where(table.c.campaign == campaign, table.c.run_id.is_not(None)).order_by(table.c.id)
        with self._reading() as connection:
            return {_shown(row): row["run_id"] for row in connection.execute(query).mappings()}

    def check(self) -> list[str]:
        """Read everything and return what is wrong."""
        try:
            with self._reading() as connection:
                return self._integrity(connection) or audit.audit(connection)
        except NotALedger as error:  # damaged so badly that not even the check could run
            return [str(error)]


def _shown(row: RowMapping) -> str:
    """What an outbox row shows; the campaign's own run also shows its end."""
    match row["kind"]:
        case "trial":
            return f"trial:{row['payload']['id']}"
        case "surrogate":
            return f"surrogate:{row['payload']['iteration']}"
        case _:
            return "campaign"


def _unchanged(stored: Campaign, digest: str) -> Campaign:
    if stored.digest != digest:
        raise SpecChanged(
            f"The campaign {stored.name!r} was created with another specification (digest {stored.digest}, now "
            f"{digest}). Restore the file it was created from, or give the changed one a new name.",
            stored=stored.spec,
        )
    return stored


def _product(connection: Connection, campaign: str, iteration: int, step: Step) -> Product | None:
    table = schema.products
    query = select(table).where(table.c.campaign == campaign, table.c.iteration == iteration, table.c.step == step)
    row = one(connection, query)
    return None if row is None else record_of(Product, row)
