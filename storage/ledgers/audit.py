"""Reading a whole ledger and saying what does not agree: digests, histories, results."""

from collections.abc import Iterator
from itertools import pairwise

from sqlalchemy import Connection, select

from storage.ledgers import schema
from storage.ledgers.rows import many, record_of
from storage.records import Campaign, Event, Result, Trial, TrialState, digest_of, trial_digest


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
    except ValueError as error:  # a row that is no record, or a column that is no JSON
        yield f"Campaign {name} cannot be read: {error}"
        return
    if campaign.digest != digest_of(campaign.spec):
        yield f"The specification of campaign {name} does not have the digest {campaign.digest} stored with it."
    for trial in trials:
        yield from _trial(connection, campaign, trial)


def _trial(connection: Connection, campaign: Campaign, trial: Trial) -> Iterator[str]:
    events, results = schema.events, schema.results
    try:
        history = many(connection, Event, select(events).where(events.c.trial == trial.id).order_by(events.c.id))
        recorded = many(connection, Result, select(results).where(results.c.trial == trial.id).order_by(results.c.id))
    except ValueError as error:
        yield f"The history of trial {trial.id} cannot be read: {error}"
        return
    if trial.digest != trial_digest(trial.design, campaign.digest):
        yield f"The design of trial {trial.id} does not have the digest {trial.digest} stored with it."
    yield from _history(trial, history)
    yield from _results(trial, recorded)


def _history(trial: Trial, history: tuple[Event, ...]) -> Iterator[str]:
    if not history or history[0].before is not None or history[0].version != 1:
        yield f"The history of trial {trial.id} does not begin with its proposal."
        return
    for earlier, later in pairwise(history):
        if later.before != earlier.after:
            yield f"Event {later.id} of trial {trial.id} starts from {later.before}, but it was {earlier.after} then."
        if (later.version or 0) - (earlier.version or 0) != (1 if later.after != later.before else 0):
            yield f"Event {later.id} of trial {trial.id} jumps from version {earlier.version} to {later.version}."
    if (last := (history[-1].after, history[-1].version)) != trial.expect:
        yield f"Trial {trial.id} is {trial.state} at version {trial.version}, but its last event left it {last}."
    staged = sum(event.action == "move" and event.after is TrialState.STAGED for event in history)
    if staged != trial.attempt:
        yield f"Trial {trial.id} counts {trial.attempt} attempts, but was staged {staged} times."


def _results(trial: Trial, results: tuple[Result, ...]) -> Iterator[str]:
    for result in results:
        stored = {"outputs": dict(result.outputs), "field": result.field and result.field.model_dump()}
        if result.digest != digest_of(stored):
            yield f"Result {result.id} of trial {trial.id} does not have the digest {result.digest} stored with it."
    accepted = [(result.outputs, result.field) for result in results if result.verdict == "accepted"]
    expected = [(trial.outputs, trial.field)] if trial.state is TrialState.COMPLETED else []
    if accepted != expected:
        yield f"Trial {trial.id} is {trial.state} with outputs {trial.outputs}, but its accepted results: {accepted}."
