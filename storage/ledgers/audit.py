"""Reading a whole ledger and saying what does not agree: digests, histories, revisions, results, spending."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TypeVar

from sqlalchemy import Connection, Table, select

from storage.ledgers import schema
from storage.ledgers.rows import many, record_of
from storage.records import (
    COUNTING,
    Campaign,
    Event,
    Result,
    Trial,
    TrialState,
    digest_of,
    result_digest,
    trial_digest,
)

_ALWAYS_BUMPS = frozenset({"edit", "correct"})  # a new version even where the state stays
_AT_ONCE = 500  # trials whose events and results are in memory together
R = TypeVar("R", Event, Result)
History = tuple[Event, ...]
Spent = tuple[float, float]  # budget units and seconds of wall time


def audit(connection: Connection) -> list[str]:
    """What is wrong with the ledger's records, one sentence each."""
    names = connection.execute(select(schema.campaigns.c.name).order_by(schema.campaigns.c.created)).scalars().all()
    return [problem for name in names for problem in _campaign(connection, str(name))]


def _campaign(connection: Connection, name: str) -> Iterator[str]:
    try:
        row = connection.execute(select(schema.campaigns).where(schema.campaigns.c.name == name)).mappings().one()
        campaign = record_of(Campaign, row)
        query = select(schema.trials).where(schema.trials.c.campaign == name).order_by(schema.trials.c.number)
        trials = many(connection, Trial, query)
        settled = _before_upgrade(connection, name)
    except ValueError as error:  # a row that is no record, or a column that is no JSON
        yield f"Campaign {name} cannot be read: {error}"
        return
    if campaign.digest != digest_of(campaign.spec):
        yield f"The specification of campaign {name} does not have the digest {campaign.digest} stored with it."
    for start in range(0, len(trials), _AT_ONCE):
        for trial, history, recorded in _read(connection, trials[start : start + _AT_ONCE]):
            yield from _trial(campaign, trial, history, recorded, settled.get(trial.id, (0.0, 0.0)))


def _before_upgrade(connection: Connection, name: str) -> Mapping[str, Spent]:
    """What trials had spent when the campaign came from schema 1, whose events do not tell it."""
    events = schema.events
    query = select(events).where(events.c.campaign == name, events.c.action == "upgrade")
    found = many(connection, Event, query)
    return {trial: tuple(spent) for event in found for trial, spent in event.details["spent"].items()}


def _read(connection: Connection, trials: Sequence[Trial]) -> Iterator[tuple[Trial, History | str, tuple[Result, ...]]]:
    """Events and results of some trials in two statements; where they cannot be read, trial by trial, to say whose."""
    ids = [trial.id for trial in trials]
    try:
        history, recorded = _of(connection, Event, schema.events, ids), _of(connection, Result, schema.results, ids)
    except ValueError as error:
        if len(trials) > 1:
            yield from (found for trial in trials for found in _read(connection, (trial,)))
        else:
            yield trials[0], f"The history of trial {ids[0]} cannot be read: {error}", ()
        return
    for trial in trials:
        yield trial, history.get(trial.id, ()), recorded.get(trial.id, ())


def _of(connection: Connection, kind: type[R], table: Table, ids: Sequence[str]) -> Mapping[str, tuple[R, ...]]:
    """Rows of trials as records by trial, oldest first."""
    rows = many(connection, kind, select(table).where(table.c.trial.in_(ids)).order_by(table.c.trial, table.c.id))
    return {trial: tuple(records) for trial, records in groupby(rows, key=lambda record: str(record.trial))}


def _trial(
    campaign: Campaign, trial: Trial, history: History | str, recorded: tuple[Result, ...], settled: Spent
) -> Iterator[str]:
    if isinstance(history, str):
        yield history
        return
    if trial.digest != trial_digest(trial.design, campaign.digest):
        yield f"The design of trial {trial.id} does not have the digest {trial.digest} stored with it."
    yield from _history(trial, history)
    yield from _revisions(trial, history)
    yield from _spending(trial, history, settled)
    yield from _results(trial, recorded)


def _history(trial: Trial, history: tuple[Event, ...]) -> Iterator[str]:
    if not history or history[0].before is not None or history[0].version != 1:
        yield f"The history of trial {trial.id} does not begin with its proposal."
        return
    for earlier, later in pairwise(history):
        if later.before != earlier.after:
            yield f"Event {later.id} of trial {trial.id} starts from {later.before}, but it was {earlier.after} then."
        bumps = later.after != later.before or later.action in _ALWAYS_BUMPS
        if (later.version or 0) - (earlier.version or 0) != int(bumps):
            yield f"Event {later.id} of trial {trial.id} jumps from version {earlier.version} to {later.version}."
    if (last := (history[-1].after, history[-1].version)) != trial.expect:
        yield f"Trial {trial.id} is {trial.state} at version {trial.version}, but its last event left it {last}."
    staged = sum(event.action == "move" and event.after is TrialState.STAGED for event in history)
    if staged != trial.attempt:
        yield f"Trial {trial.id} counts {trial.attempt} attempts, but was staged {staged} times."


def _revisions(trial: Trial, history: tuple[Event, ...]) -> Iterator[str]:
    edits = [event for event in history if event.action == "edit"]
    if [event.details.get("revision") for event in edits] != list(range(2, trial.revision + 1)):
        yield f"Trial {trial.id} is at revision {trial.revision}, but was edited {len(edits)} times."
    designs = [event.details.get("design") for event in edits]
    was = [event.details.get("was") for event in edits]
    if edits and designs != [*was[1:], trial.design]:
        yield f"The edits of trial {trial.id} do not lead from one design to the next, up to {dict(trial.design)}."


def _spending(trial: Trial, history: tuple[Event, ...], settled: Spent) -> Iterator[str]:
    spent, seconds = settled
    for event in history:
        spent += event.details.get("spent", 0.0)
        seconds += event.details.get("seconds", 0.0)
    if (spent, seconds) != (trial.spent, trial.seconds):
        yield (
            f"Trial {trial.id} has spent {trial.spent} in {trial.seconds} s, but its attempts came to {spent} in "
            f"{seconds} s."
        )


def _results(trial: Trial, results: tuple[Result, ...]) -> Iterator[str]:
    for result in results:
        if result.digest != result_digest(result.outputs, result.field, result.ran):
            yield f"Result {result.id} of trial {trial.id} does not have the digest {result.digest} stored with it."
    counting = [result for result in results if result.verdict in COUNTING]
    if [result.replaces for result in counting] != [None, *(result.id for result in counting)][: len(counting)]:
        yield f"The corrections of trial {trial.id} do not each replace the one before."
    said = [(None if r.verdict == "retraction" else r.outputs, r.field, r.ran) for r in counting[-1:]]
    expected = [(trial.outputs, trial.field, trial.ran)] if trial.state is TrialState.COMPLETED else []
    if said != expected:
        yield f"Trial {trial.id} is {trial.state} with outputs {trial.outputs}, but its accepted results: {said}."
