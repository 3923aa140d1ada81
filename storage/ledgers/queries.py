"""Queries of the ledger over any SQL database."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NoReturn

from sqlalchemy import BindParameter, Connection, Engine, Select, bindparam, func, select
from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger.errors import InvalidRecord, LedgerError, NotALedger, UnreadableRow
from fieldcraft.storage.ledger.queries import Queries
from fieldcraft.storage.ledgers.operations import audit, budget, codes, custody, designs, leases, remembered, summaries
from fieldcraft.storage.ledgers.operations.results import stored_results
from fieldcraft.storage.ledgers.tables import schema, unreadable
from fieldcraft.storage.ledgers.tables.rows import get_campaign, get_product, get_trial, many, require_campaign
from fieldcraft.storage.records import (
    Approval,
    CampaignRecord,
    Event,
    Lease,
    Notice,
    OutboxItem,
    Product,
    Result,
    ResultSummary,
    Retriable,
    Spending,
    Step,
    Trial,
    TrialState,
    TrialSummary,
)

# Made once: to make a statement and the key under which it is compiled takes longer than to run it.
_OF: BindParameter[str] = bindparam("campaign")
_LATEST = (
    select(schema.products)
    .where(schema.products.c.campaign == _OF, schema.products.c.step == bindparam("step"))
    .order_by(schema.products.c.iteration.desc())
    .limit(1)
)
_LAST_EVENT = select(func.max(schema.events.c.id)).where(schema.events.c.campaign == _OF)
_RESULTS = (
    select(schema.results)
    .join(schema.trials, schema.trials.c.id == schema.results.c.trial)
    .where(schema.trials.c.campaign == _OF)
    .order_by(schema.results.c.id)
)
_PARTS = _RESULTS.where(schema.results.c.verdict == "partial")
_APPROVALS = codes.GRANTED.where(schema.approvals.c.trial == bindparam("trial")).order_by(schema.approvals.c.id)
_UNUSED = (
    codes.GRANTED.join(schema.trials, schema.trials.c.id == schema.approvals.c.trial)
    .where(schema.approvals.c.voided.is_(None))
    .where(schema.trials.c.campaign == _OF, schema.trials.c.state == TrialState.APPROVED.value)
    .order_by(schema.approvals.c.id)
)
_NOTICED = (
    select(schema.notices)
    .where(schema.notices.c.campaign == _OF, schema.notices.c.event == bindparam("event"))
    .order_by(schema.notices.c.id)
)


@cache
def _trials(of_states: bool, of_iteration: bool) -> Select[Any]:
    table = schema.trials
    query = select(table).where(table.c.campaign == _OF)
    if of_states:
        query = query.where(table.c.state.in_(bindparam("states", expanding=True)))
    # By an expression: SQLite else takes the index that is in this order, and reads all trials for those of a state.
    query = query.order_by(table.c.number + 0 if of_states else table.c.number)
    return query.where(table.c.iteration == bindparam("iteration")) if of_iteration else query


@cache
def _history(of_trial: bool) -> Select[Any]:
    table = schema.events
    query = select(table).where(table.c.campaign == _OF, table.c.id > bindparam("after")).order_by(table.c.id)
    return query.where(table.c.trial == bindparam("trial")) if of_trial else query


@cache
def _notices(of_campaign: bool) -> Select[Any]:
    table = schema.notices
    query = select(table).where(table.c.told.is_(None)).order_by(table.c.id).limit(bindparam("limit"))
    return query.where(table.c.campaign == _OF) if of_campaign else query


class SqlQueries(Queries):
    """The queries of ``SqlLedger``; each goes through ``_query``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    @abstractmethod
    def shown(self) -> str:
        """Place of the ledger as it may be shown, without a password."""

    @abstractmethod
    def _explain(self, error: DBAPIError) -> LedgerError:
        """Translate the database's error into a ledger error with the remedy."""

    def _is_of_a_row(self, error: DBAPIError) -> bool:
        """True if the database's error may be about the content of a row."""
        return False

    @abstractmethod
    def _integrity(self, connection: Connection) -> list[str]:
        """Problems that the database itself finds in its files."""

    @contextmanager
    def _query(self) -> Iterator[Connection]:
        """One read transaction: all its reads see the same instant."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except (OverflowError, UnicodeEncodeError) as error:
            raise unstorable(error) from error
        except unreadable.FAULTS as error:
            self._raise(error)

    @contextmanager
    def _of(self, campaign: str) -> Iterator[Connection]:
        """A read transaction about a campaign, which must exist."""
        with self._query() as connection:
            require_campaign(connection, campaign)
            yield connection

    def _raise(self, error: Exception) -> NoReturn:
        """Raise the ledger's error: an unreadable row if there is one, else the database's error, translated."""
        if not isinstance(error, DBAPIError) or self._is_of_a_row(error):
            with suppress(DBAPIError), self._engine.connect() as connection:
                if rows := tuple(unreadable.find(connection)):
                    raise UnreadableRow(_unreadable(self.shown, rows)) from error
        if isinstance(error, DBAPIError):
            raise self._explain(error) from error
        raise error

    @override
    def campaign(self, name: str) -> CampaignRecord:
        with self._query() as connection:
            return get_campaign(connection, name)

    @override
    def campaigns(self) -> tuple[CampaignRecord, ...]:
        table = schema.campaigns
        with self._query() as connection:
            return many(connection, CampaignRecord, select(table).order_by(table.c.created, table.c.name))

    @override
    def holder(self, name: str) -> Lease | None:
        with self._query() as connection:
            get_campaign(connection, name)
            return leases.holder(connection, name)

    @override
    def trainer(self, campaign: str) -> Lease | None:
        with self._query() as connection:
            get_campaign(connection, campaign)
            return leases.holder(connection, leases.trainer_of(campaign))

    @override
    def given(self, campaign: str) -> frozenset[str]:
        with self._of(campaign) as connection:
            return leases.given(connection, campaign)

    @override
    def product(self, campaign: str, iteration: int, step: Step) -> Product | None:
        with self._of(campaign) as connection:
            return get_product(connection, campaign, iteration, step)

    @override
    def products(self, campaign: str) -> tuple[Product, ...]:
        table = schema.products
        query = select(table).where(table.c.campaign == campaign)
        with self._query() as connection:
            require_campaign(connection, campaign)
            return many(connection, Product, query.order_by(table.c.iteration, table.c.step))

    @override
    def extracts(self, campaign: str, step: Step, keys: Sequence[str]) -> Mapping[int, Mapping[str, Any]]:
        with self._query() as connection:
            get_campaign(connection, campaign)
            return summaries.extracts(connection, campaign, step, keys)

    @override
    def latest(self, campaign: str, step: Step) -> Product | None:
        with self._of(campaign) as connection:
            return next(iter(many(connection, Product, _LATEST, campaign=campaign, step=step)), None)

    @override
    def iterations(self, campaign: str, step: Step) -> tuple[int, ...]:
        table = schema.products
        query = select(table.c.iteration).where(table.c.campaign == campaign, table.c.step == step)
        with self._query() as connection:
            get_campaign(connection, campaign)
            return tuple(connection.execute(query.order_by(table.c.iteration)).scalars())

    @override
    def trials(
        self, campaign: str, states: Collection[TrialState] | None = None, iteration: int | None = None
    ) -> tuple[Trial, ...]:
        query = _trials(states is not None, iteration is not None)
        chosen = {} if states is None else {"states": [state.value for state in states]}
        of = {} if iteration is None else {"iteration": iteration}
        with self._of(campaign) as connection:
            return many(connection, Trial, query, campaign=campaign, **chosen, **of)

    @override
    def summaries(self, campaign: str) -> tuple[TrialSummary, ...]:
        with self._of(campaign) as connection:
            return remembered.trials(connection, campaign)

    @override
    def settled(self, campaign: str) -> Mapping[str, int]:
        with self._of(campaign) as connection:
            return remembered.settled(connection, campaign)

    @override
    def corrected(self, campaign: str) -> frozenset[str]:
        with self._of(campaign) as connection:
            return summaries.corrected(connection, campaign)

    @override
    def retriable(self, campaign: str) -> tuple[Retriable, ...]:
        with self._of(campaign) as connection:
            return summaries.retriable(connection, campaign)

    @override
    def trial(self, trial_id: str) -> Trial:
        with self._query() as connection:
            return get_trial(connection, trial_id)

    @override
    def history(self, campaign: str, trial: str | None = None, after: int = 0) -> tuple[Event, ...]:
        with self._of(campaign) as connection:
            of = {} if trial is None else {"trial": get_trial(connection, trial).id}
            return many(connection, Event, _history(trial is not None), campaign=campaign, after=after, **of)

    @override
    def last_event(self, campaign: str) -> int:
        with self._of(campaign) as connection:
            return int(connection.execute(_LAST_EVENT, {"campaign": campaign}).scalar_one())

    @override
    def results(self, trial_id: str) -> tuple[Result, ...]:
        with self._query() as connection:
            return stored_results(connection, get_trial(connection, trial_id).id)

    @override
    def campaign_results(self, campaign: str) -> tuple[Result, ...]:
        with self._of(campaign) as connection:
            return many(connection, Result, _RESULTS, campaign=campaign)

    @override
    def parts(self, campaign: str) -> tuple[Result, ...]:
        with self._of(campaign) as connection:
            return many(connection, Result, _PARTS, campaign=campaign)

    @override
    def result_summaries(self, campaign: str) -> tuple[ResultSummary, ...]:
        with self._of(campaign) as connection:
            return remembered.results(connection, campaign)

    @override
    def spending(self, campaign: str) -> Spending:
        with self._of(campaign) as connection:
            return budget.spending(connection, campaign)

    @override
    def approvals(self, trial_id: str) -> tuple[Approval, ...]:
        with self._query() as connection:
            return many(connection, Approval, _APPROVALS, trial=get_trial(connection, trial_id).id)

    @override
    def granted(self, campaign: str) -> tuple[Approval, ...]:
        table, trials = schema.approvals, schema.trials
        query = codes.GRANTED.join(trials, trials.c.id == table.c.trial).where(trials.c.campaign == campaign)
        with self._query() as connection:
            get_campaign(connection, campaign)
            return many(connection, Approval, query.order_by(table.c.id))

    @override
    def unused(self, campaign: str) -> Mapping[str, Approval]:
        with self._of(campaign) as connection:
            return {approval.trial: approval for approval in many(connection, Approval, _UNUSED, campaign=campaign)}

    @override
    def last_approved(self, campaign: str) -> Event | None:
        with self._of(campaign) as connection:
            return codes.latest(connection, campaign)

    @override
    def picked(self, campaign: str) -> Event | None:
        with self._of(campaign) as connection:
            return designs.latest_pick(connection, campaign)

    @override
    def codes(self, campaign: str) -> Mapping[str, Code]:
        with self._of(campaign) as connection:
            return codes.known(connection, campaign)

    @override
    def pending(self, campaign: str | None = None, limit: int = 1000) -> tuple[OutboxItem, ...]:
        table = schema.outbox
        query = select(table).where(table.c.exported.is_(None)).order_by(table.c.id).limit(limit)
        if campaign is not None:
            query = query.where(table.c.campaign == campaign)
        with self._query() as connection:
            return many(connection, OutboxItem, query)

    @override
    def unexported(self, campaign: str) -> int:
        table = schema.outbox
        query = select(func.count()).where(table.c.campaign == campaign, table.c.exported.is_(None))
        with self._query() as connection:
            get_campaign(connection, campaign)
            return connection.execute(query).scalar_one()

    @override
    def tracked(self, campaign: str) -> Mapping[str, str]:
        with self._query() as connection:
            return summaries.tracked(connection, campaign)

    @override
    def notices(self, campaign: str | None = None, limit: int = 100) -> tuple[Notice, ...]:
        of = {} if campaign is None else {"campaign": campaign}
        with self._query() as connection:
            return many(connection, Notice, _notices(campaign is not None), limit=limit, **of)

    @override
    def noticed(self, campaign: str, event: str) -> tuple[Notice, ...]:
        with self._query() as connection:
            return many(connection, Notice, _NOTICED, campaign=campaign, event=event)

    @override
    def sealed(self) -> str | None:
        with self._query() as connection:
            return custody.sealed_to(connection)

    @override
    def created(self) -> float:
        with self._query() as connection:
            return float(connection.execute(select(schema.store.c.created)).scalar_one())

    @override
    def check(self) -> list[str]:
        found = list[str]()
        try:
            with self._query() as connection:
                found += self._integrity(connection)
                found += audit.audit(connection)
        except NotALedger as error:  # damaged so badly that the check could not come to its end
            found.append(str(error))
        return found


def _unreadable(place: str, rows: Sequence[unreadable.Unreadable]) -> str:
    """Message about rows that were needed and cannot be read."""
    more = f" Nor can {len(rows) - 1} more." if len(rows) > 1 else ""
    return (
        f"The ledger {place} was altered or damaged. {rows[0]}{more} Nothing was changed. `fieldcraft doctor` names "
        "all that is wrong; `fieldcraft restore` makes a home of a backup."
    )


def unstorable(error: OverflowError | UnicodeEncodeError) -> InvalidRecord:
    """The error for a number or a text that no database takes, in a write or a query."""
    value = f"The text {error.object!r}"[:200] if isinstance(error, UnicodeEncodeError) else "A number"
    return InvalidRecord(f"{value} cannot be in a ledger ({error}). Nothing was changed; name it as it is.")
