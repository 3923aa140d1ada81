"""Whatever is tried in whatever order, nothing runs without a live approval of exactly that. On every back end.

Beside each trial stands a model of the rule, which knows nothing of the ledger's code: which design was approved, how
often it may still be sent, and whether that leave has expired. Ledger and model must agree about every attempt.
"""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from ledgers import BACKENDS, S, begin, grant, proposal, require_same_in_brief
from length import LONG

from fieldcraft.storage.ledger import Ledger, LedgerError
from fieldcraft.storage.records import TRANSITIONS, Trial, TrialState

# What is tried is the shared code, but for each server's locks.
SEQUENCES = {"sqlite": [2_500] * 4 if LONG else [500] * 4, "postgresql": [500] * 4 if LONG else [800]}
SHARDS = [(backend, number) for backend, sizes in SEQUENCES.items() for number in range(len(sizes))]
LENGTH = 6
FAST = Path("/dev/shm")  # memory, where there is such a place: nothing here asks what a crash leaves
ENDS_LEAVE = {S.PROPOSED, S.REJECTED, S.ABANDONED}
WAY_TO_APPROVED = {S.PROPOSED, S.FAILED, S.HELD}
ACTIONS = ("approve", "approve both", "reject both", "edit", "move", "record")
WEIGHTS = (4, 1, 1, 3, 7, 1)


@pytest.fixture(params=SHARDS, ids="{0[0]}-{0[1]}".format)
def shard(request: pytest.FixtureRequest):
    backend, number = request.param
    with TemporaryDirectory(dir=FAST if FAST.is_dir() else None) as folder:
        ledger = BACKENDS[backend](Path(folder))
        begin(ledger)
        yield ledger, number, SEQUENCES[backend][number]


@dataclass
class Leave:
    """What an approval allows, as a person would say it."""

    design: dict[str, Any]
    times: int
    expired: bool


@dataclass
class Model:
    """One trial as the rule sees it, with all snapshots the ledger ever gave of it."""

    snapshots: list[Trial]
    leave: Leave | None = None
    design: dict[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> Trial:
        return self.snapshots[-1]

    def may_run(self) -> bool:
        leave = self.leave
        return leave is not None and leave.design == self.design and leave.times > 0 and not leave.expired


@dataclass(frozen=True)
class Attempt:
    """One thing somebody tries, perhaps on a trial that has moved since they looked."""

    action: str
    age: int  # how many snapshots ago they looked
    number: int  # of attempts approved, of the state to move to, of the edited place
    expired: bool
    another: bool  # a digest that is not that of what would run

    @staticmethod
    def drawn(dice: random.Random) -> "Attempt":
        (action,) = dice.choices(ACTIONS, WEIGHTS)
        age = dice.choice((0, 0, 0, 0, 0, 1, 2))
        return Attempt(action, age, dice.randrange(12), dice.random() < 0.2, dice.random() < 0.15)

    def seen(self, model: Model) -> Trial:
        return model.snapshots[max(0, len(model.snapshots) - 1 - self.age)]

    def to(self, trial: Trial) -> TrialState:
        """Mostly onward by the table: most moves drawn at random would be refused, and a trial never come far."""
        ways = sorted(TRANSITIONS[trial.state]) or [S.STAGED]
        return list(TrialState)[self.number % 9] if self.number > 9 else ways[self.number % len(ways)]


def tried(ledger: Ledger, attempt: Attempt, trial: Trial, partner: Trial) -> tuple[Trial, ...]:
    """Do it; the trials as they are afterwards."""
    grants = [grant(trial), grant(partner)]
    if attempt.another:
        grants[0] = grants[0].model_copy(update={"digest": "0" * 64})
    terms = ("test", "", "manual", 1 + attempt.number % 2, time.time() + (-1.0 if attempt.expired else 3600.0))
    match attempt.action:
        case "approve":
            return (ledger.approve(trial.id, trial.expect, grants[0].digest, *terms),)
        case "approve both":
            return ledger.approve_all(grants, *terms)
        case "reject both":
            return ledger.reject_all(grants, "test", "random")
        case "edit":
            return (ledger.edit(trial.id, trial.expect, edited(attempt, trial), 1.0, "test", "random"),)
        case "record":
            return (ledger.record(trial.id, trial.expect, {"y": 1.0}, None, "test", "local", {})[0],)
    to = attempt.to(trial)
    failure = "transient" if to is S.FAILED else None
    return (ledger.move(trial.id, to, trial.expect, "test", "random", failure=failure),)


def edited(attempt: Attempt, trial: Trial) -> dict[str, Any]:
    return {**trial.design, "x": float(attempt.number % 3)}


def allowed(attempt: Attempt, model: Model, partner: Model) -> bool:
    """Whether the rule lets the attempt succeed."""
    state, both = model.now.state, (model.now.state, partner.now.state)
    if attempt.seen(model) != model.now:
        return False
    match attempt.action:
        case "approve":
            return not attempt.another and state in WAY_TO_APPROVED
        case "approve both":
            return not attempt.another and set(both) <= WAY_TO_APPROVED
        case "reject both":
            return not attempt.another and set(both) <= {S.PROPOSED, S.APPROVED}
        case "edit":
            return state in (S.PROPOSED, S.APPROVED) and edited(attempt, model.now) != model.design
        case "record":
            return model.now.attempt > 0 and state is not S.STAGED
    to = attempt.to(model.now)
    needs_leave = to is S.STAGED or (to is S.APPROVED and state is not S.PROPOSED)
    other_door = to is S.COMPLETED or (to is S.APPROVED and state is S.PROPOSED)
    return to in TRANSITIONS[state] and not other_door and (model.may_run() or not needs_leave)


def follow(attempt: Attempt, model: Model, after: Trial) -> None:
    """Let the model make the step that the ledger says was made."""
    before, expired = model.now, attempt.expired
    if attempt.action.startswith("approve"):
        model.leave = Leave(dict(model.design), 1 + attempt.number % 2, expired)
    elif attempt.action == "edit":
        model.design, model.leave = edited(attempt, before), None
    elif after.state in ENDS_LEAVE and attempt.action != "record":
        model.leave = None
    elif after.state is S.STAGED:
        assert model.leave is not None and model.may_run(), "staged without leave"
        assert dict(after.design) == model.leave.design, "another design than the approved one is sent"
        model.leave.times -= 1
    if after != before:
        model.snapshots.append(after)


def run(ledger: Ledger, attempts: list[Attempt], model: Model, partner: Model) -> None:
    for attempt in attempts:
        expected = allowed(attempt, model, partner)
        try:
            after = tried(ledger, attempt, attempt.seen(model), partner.now)
        except LedgerError as error:
            assert not expected, f"{attempt} was refused: {error}"
            continue
        assert expected, f"{attempt} was let through"
        for each, trial in zip((model, partner), after, strict=False):
            follow(attempt, each, trial)


def agree(ledger: Ledger, model: Model) -> bool:
    """Whether the ledger holds of a trial what the model says, so that nothing that was refused changed it."""
    live = [approval for approval in ledger.approvals(model.now.id) if approval.live]
    return len(live) == (model.leave is not None) and ledger.trial(model.now.id) == model.now


def test_nothing_runs_without_a_live_approval_of_exactly_that_in_thousands_of_sequences(shard):
    ledger, number, sequences = shard
    dice = random.Random(number)
    trials = ledger.propose("heat", number, [proposal(slot, x=0.5) for slot in range(sequences + 1)], "test")
    partner = Model([trials[-1]], design=dict(trials[-1].design))
    staged = 0
    for place, trial in enumerate(trials[:-1]):
        attempts = [Attempt.drawn(dice) for _ in range(dice.randint(3, LENGTH))]
        model = Model([trial], design=dict(trial.design))
        try:
            run(ledger, attempts, model, partner)
            spent = partner.now.state not in (S.PROPOSED, S.APPROVED) or len(partner.snapshots) > 4
            over = partner if spent else model  # a partner is looked at when it is no partner any more
            assert agree(ledger, over), f"{over.now} is not what the ledger holds"
        except AssertionError as error:
            raise AssertionError(f"sequence {place} of shard {number}: {attempts}") from error
        staged += model.now.attempt > 0
        if place % (sequences // 4) == 0:
            require_same_in_brief(ledger, "heat")
        if spent:
            partner = model
    assert agree(ledger, partner)
    require_same_in_brief(ledger, "heat")
    assert staged > sequences / 20  # the sequences come far enough to say something
