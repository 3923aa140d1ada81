"""Decisions of people on trials: approve, reject, edit and prioritise, for the commands and the flow ``decide``.

Every decision is bound to the version of the trial that the person saw: its state and the digest of what would run. If
the trial has changed since, the decision is refused, and the error names who changed it.

    Overtaken   somebody, or a pass, changed the trial first
"""

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.identity import Person, Refused
from fieldcraft.flows.rules.approval_policy import expiry
from fieldcraft.flows.rules.approved_code import covered
from fieldcraft.flows.rules.trial_labels import Choice, label
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import CampaignSpec, stored
from fieldcraft.flows.text import one_line, quoted, remark, since
from fieldcraft.flows.wiring.build import rewire
from fieldcraft.physics.space import Categorical, Integer, SearchSpace
from fieldcraft.storage.ledger import Ledger, StaleTrial
from fieldcraft.storage.records import Event, Grant, Level, Trial, TrialState

UNSENT = frozenset({TrialState.PROPOSED, TrialState.APPROVED})
_HIGHEST = 1_000_000
_WHAT_HAPPENED: Mapping[TrialState, str] = {
    TrialState.PROPOSED: "put back to the proposals",
    TrialState.APPROVED: "approved",
    TrialState.STAGED: "claimed for dispatch",
    TrialState.RUNNING: "sent",
    TrialState.COMPLETED: "completed",
    TrialState.FAILED: "reported as failed",
    TrialState.ABANDONED: "abandoned",
    TrialState.REJECTED: "rejected",
    TrialState.HELD: "held for a person",
}
_WORDS: Mapping[str, str] = {"edit": "edited", "propose": "proposed", "import": "imported"}


class Overtaken(FieldcraftError):
    """The trial has changed since the person saw it; the message says who changed it, how and when."""


def approve(
    ledger: Ledger,
    settings: Settings,
    person: Person,
    choices: Sequence[Choice],
    comment: str = "",
    attempts: int | None = None,
) -> tuple[Trial, ...]:
    """Approve proposals of one campaign, all or none, for the code that would run now.

    Args:
        ledger: Ledger of the trials.
        settings: Settings by which that code is found.
        person: The approver; their cost limit holds for each trial and for the sum.
        choices: The proposals; under the policy ``batch`` all proposals of an iteration.
        comment: Comment of the approver.
        attempts: Number of times each may be sent; by default as in the campaign file.

    Raises:
        Overtaken: one of them does not wait any more, or has changed since it was seen.
        identity.Refused: the cost is above the person's limit, or only an operator may give so many attempts.
        InputError: the choices, the comment or the attempts are invalid, or the code that would run is not here.
    """
    comment = remark(comment, "comment")
    trials = _seen(ledger, choices, {TrialState.PROPOSED})
    spec = _specification(ledger, trials)
    if (ended := ledger.campaign(spec.name).finished) is not None:
        raise InputError(f"Campaign {spec.name!r} has ended ({ended}) and sends nothing more. Nothing was changed.")
    _require_whole_batches(ledger, spec, trials, {TrialState.PROPOSED})
    person.require_cost({trial.id: trial.cost for trial in trials})
    given, until, code = _attempts(spec, person, attempts), expiry(spec, time.time()), covered(spec, settings).code
    with one_winner(ledger, trials):
        return ledger.approve_all(_grants(trials), person.name, comment, "manual", given, until, code)


def reject(
    ledger: Ledger, person: Person, choices: Sequence[Choice], reason: str, states: Collection[TrialState] = UNSENT
) -> tuple[Trial, ...]:
    """Reject trials of one campaign that were not sent yet, all or none; raises as ``approve``.

    Args:
        ledger: Ledger of the trials.
        person: Who rejects.
        choices: The trials.
        reason: Reason of the rejection.
        states: States that the person saw them in; by default any before they are sent.
    """
    if not remark(reason, "reason").strip():
        raise InputError("A rejection without a reason teaches nobody: give one. Nothing was changed.")
    trials = _seen(ledger, choices, states)
    _require_whole_batches(ledger, _specification(ledger, trials), trials, UNSENT)
    with one_winner(ledger, trials):
        return ledger.reject_all(_grants(trials), person.name, reason)


def edit(
    ledger: Ledger,
    settings: Settings,
    person: Person,
    choice: Choice,
    values: Mapping[str, str],
    reason: str = "",
    states: Collection[TrialState] = UNSENT,
) -> tuple[Trial, Trial]:
    """Change variables of a trial that was not sent yet; it then needs a new approval, by a person or the policy.

    Args:
        ledger: Ledger of the trial.
        settings: Settings by which the campaign's problem is found.
        person: The editor; their cost limit holds for the new design, which the policy may approve at once.
        choice: The trial.
        values: New values as text, in the variables' units; the other variables keep theirs.
        reason: Reason of the edit.
        states: States that the person saw it in; by default any before it is sent.

    Returns:
        The trial before and after.

    Raises:
        Overtaken: it was sent or decided upon, or has changed since it was seen.
        identity.Refused: the new design costs more than the person may approve.
        InputError: the design is not one of the campaign's space, or the reason is invalid.
    """
    reason = remark(reason, "reason")
    (before,) = _seen(ledger, [choice], states)
    campaign = rewire(ledger.campaign(before.campaign).spec, settings, algorithm=False)
    design = edited_design(campaign.space, before, values)
    cost = campaign.cost(design, before.level)
    person.require_cost({before.id: cost})
    with one_winner(ledger, [before]):
        after = ledger.edit(before.id, before.expect, design, cost, person.name, reason)
    return before, after


def edited_design(space: SearchSpace, trial: Trial, values: Mapping[str, str]) -> dict[str, Level]:
    """A trial's design with other values of some variables, given as text in the variables' units.

    Raises:
        InputError: it is none of the space; states the reason.
    """
    try:
        design = {**trial.design, **{name: _level(space, name, text) for name, text in values.items()}}
        space.check(design)
    except ValueError as error:
        raise InputError(f"{trial.id}: {error} Nothing was changed.") from None
    return design


def prioritise(ledger: Ledger, person: Person, trial: str, priority: int, reason: str = "") -> Trial:
    """Set a trial's priority: approved trials of higher priority are sent first.

    Args:
        ledger: Ledger of the trial.
        person: The person who sets it.
        trial: Id, or label, which binds the priority to the version that was seen.
        priority: New priority, from -1,000,000 to 1,000,000; a new trial has 0.
        reason: Reason of the change.

    Raises:
        Overtaken: it was edited since it was seen.
        InputError: the priority or the reason is invalid.
    """
    if abs(priority) > _HIGHEST:
        raise InputError(f"A priority of {priority} is out of reach: give one from {-_HIGHEST} to {_HIGHEST}.")
    reason, choice = remark(reason, "reason"), Choice.of(trial)
    seen = ledger.trial(choice.trial)
    require_seen(ledger, choice, seen)
    revision = None if choice.digest is None else seen.revision
    with one_winner(ledger, [seen]):
        return ledger.prioritise(seen.id, priority, person.name, reason, revision)


def batch(ledger: Ledger, word: str, states: Collection[TrialState]) -> list[Choice]:
    """The trials of an iteration, ``NAME:ITERATION``, that are in one of ``states``.

    Raises:
        InputError: there is no such iteration.
        Overtaken: it has no such trial any more; says who decided.
    """
    name, _, number = word.rpartition(":")
    if not name or not re.fullmatch("[0-9]{1,9}", number):
        raise InputError(f"{quoted(one_line(word))} names no batch: give NAME:ITERATION, such as heat:3.")
    trials = ledger.trials(name, iteration=int(number))
    if not trials:
        last = max((trial.iteration for trial in ledger.trials(name)), default=None)
        raise InputError(f"Campaign {name!r} has no iteration {number}: its last one is {last}. Nothing was changed.")
    chosen = [Choice(trial.id) for trial in trials if trial.state in states]
    if not chosen:
        raise overtaken(ledger, trials[0])
    return chosen


def _seen(ledger: Ledger, choices: Sequence[Choice], states: Collection[TrialState]) -> list[Trial]:
    """The trials chosen, each in one of ``states`` and with the digest that the person saw."""
    names = [choice.trial for choice in choices]
    if not names or len(set(names)) < len(names):
        raise InputError(f"The trials chosen are {', '.join(names) or 'none'}: name at least one, and each once.")
    trials = [ledger.trial(name) for name in names]
    for choice, trial in zip(choices, trials, strict=True):
        if trial.state not in states:
            raise overtaken(ledger, trial)
        require_seen(ledger, choice, trial)
    return trials


def require_seen(ledger: Ledger, choice: Choice, trial: Trial) -> None:
    """Accept a decision on a trial that has not changed since the person saw it.

    Raises:
        Overtaken: it has; says who changed it.
    """
    if not choice.names(trial):
        raise Overtaken(
            f"{trial.id} is not what you saw: it is {label(trial)} now, not {choice.word}; it "
            f"{_decision(ledger, trial)}. Look at it again ('fieldcraft queue'). Nothing was changed."
        )


def _specification(ledger: Ledger, trials: Sequence[Trial]) -> CampaignSpec:
    names = sorted({trial.campaign for trial in trials})
    if len(names) > 1:
        raise InputError(f"The trials belong to {', '.join(names)}: decide on one campaign at a time.")
    return stored(ledger.campaign(names[0]).spec, f"campaign {names[0]}")


def _require_whole_batches(
    ledger: Ledger, spec: CampaignSpec, trials: Sequence[Trial], states: Collection[TrialState]
) -> None:
    if spec.approval.policy != "batch":
        return
    chosen = {trial.id for trial in trials}
    for iteration in sorted({trial.iteration for trial in trials}):
        others = [t.id for t in ledger.trials(spec.name, states=states, iteration=iteration) if t.id not in chosen]
        if others:
            raise InputError(
                f"Campaign {spec.name!r} decides by batch and {', '.join(others)} of iteration {iteration} would be "
                f"left over: decide on all of it together, or edit the trial in doubt first. At the desk choose all of "
                f"its cards, in a terminal give --batch {spec.name}:{iteration}. Nothing was changed."
            )


def _attempts(spec: CampaignSpec, person: Person, wanted: int | None) -> int:
    usual = spec.dispatcher.attempts
    if wanted is None:
        return usual
    if wanted < 1:
        raise InputError(f"An approval for {wanted} attempts would approve nothing: give at least 1.")
    if wanted > _HIGHEST:
        raise InputError(f"An approval for {wanted} attempts is out of reach: give at most {_HIGHEST}.")
    if wanted > usual and person.role != "operator":  # each attempt may cost as much as the first
        raise Refused(
            f"{person.name} is an {person.role} and may give the {usual} attempts of the campaign file, not {wanted}: "
            "ask an operator. Nothing was changed."
        )
    return wanted


def _level(space: SearchSpace, name: str, text: str) -> Level:
    """A value of the variable's type; text that is no number stays text, which the space then refuses."""
    variable = next((one for one in space.variables if one.name == name), None)
    if variable is None or isinstance(variable, Categorical) or "_" in text:  # which Python takes within a number
        return text
    for number in (int, float) if isinstance(variable, Integer) else (float,):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _grants(trials: Sequence[Trial]) -> list[Grant]:
    return [Grant(trial=trial.id, expect=trial.expect, digest=trial.digest) for trial in trials]


@contextmanager
def one_winner(ledger: Ledger, trials: Sequence[Trial]) -> Iterator[None]:
    """Raise ``Overtaken`` for a lost compare-and-swap; its message names who changed the trial first."""
    try:
        yield
    except StaleTrial:
        for trial in trials:
            if (now := ledger.trial(trial.id)).expect != trial.expect:
                raise overtaken(ledger, now) from None
        raise


def overtaken(ledger: Ledger, trial: Trial) -> Overtaken:
    """The error for a trial that was changed first; says who changed it, how and when."""
    return Overtaken(f"{trial.id} {_decision(ledger, trial)}. Nothing was changed.")


def _decision(ledger: Ledger, trial: Trial) -> str:
    """Latest change of a trial, with its author and time: ``was rejected by ben 3 s ago (too hot)``."""
    events = [event for event in ledger.history(trial.campaign, trial.id) if event.version is not None]
    event = next(event for event in reversed(events) if _moves(event))
    reason = one_line(event.reason)
    why = f" ({reason[:200]})" if reason else ""
    what = _WORDS.get(event.action) or _WHAT_HAPPENED[event.after or trial.state]
    if _is_part(event):
        what = "freed of the parts of its result" if "withdraws" in event.details else "given a part of its result"
    return f"was {what} by {one_line(event.by)} {since(event.created, time.time())}{why}"


def _moves(event: Event) -> bool:
    """True if the event changed the trial's state or design, or what is known of its result."""
    return event.action == "edit" or _is_part(event) or (event.after is not None and event.after != event.before)


def _is_part(event: Event) -> bool:
    return event.details.get("verdict") == "partial"
