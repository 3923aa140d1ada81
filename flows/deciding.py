"""Step 3, decide: budget, pending trials and stop rules say whether to propose, to wait or to end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flows.approval import automatic, ready
from flows.budget import exhausted, nearly_spent, obstacle
from flows.dispatching import room_for
from flows.progress import tell
from flows.retries import retries
from flows.sites import ACTOR, Site
from flows.stopping import nothing_to_learn_from, stop_reason
from storage.ledger import StaleTrial
from storage.records import OUT, Spending, Trial, TrialState

Wait = Literal["simulations", "retry", "laboratory", "person"]


@dataclass(frozen=True)
class Decision:
    """What the pass does next: it proposes, waits or ends.

    Args:
        propose: Number of designs to propose, 0 for none.
        iteration: The iteration they belong to.
        model: Whether a surrogate chooses them.
        wait: What is waited for: ``simulations`` also where a trial is about to be sent, ``retry`` for the pause after
            a failure in passing, ``laboratory`` where people do the work, ``person`` where one has to decide.
        due: When the soonest retry may go, in seconds since the epoch.
        finished: Why the campaign has ended.
    """

    propose: int = 0
    iteration: int = 0
    model: bool = False
    wait: Wait | None = None
    due: float | None = None
    finished: str | None = None


def decide(site: Site) -> Decision:
    """Look at the ledger and decide; an end is recorded with the name of its rule."""
    known = site.ledger.campaign(site.name).finished
    if known is not None:
        return Decision(finished=known)
    trials, spending = site.ledger.trials(site.name), site.ledger.spending(site.name)
    _warn(site, spending)
    waits = _waits(site, trials, spending)
    if waits is not None and not _only_pointless_proposals(site, trials, waits):
        return waits
    if reason := _end(site, trials, spending):
        return _finished(site, trials, reason)
    return _next(site, trials)


def _waits(site: Site, trials: tuple[Trial, ...], spending: Spending) -> Decision | None:
    """What has to come before anything else is proposed; None where nothing has."""
    spec, dispatcher = site.campaign.spec, site.campaign.dispatcher
    affordable = [trial for trial in trials if obstacle(trial, site.campaign.limits, spending, spec.budget) is None]
    goes = automatic(spec.approval, trials) | {trial.id for trial in ready(spec, trials)}
    sent = any(trial.state in (TrialState.STAGED, TrialState.RUNNING) for trial in trials)
    again = retries(site.ledger, spec.dispatcher, affordable)
    due = again[0].due if again else None
    if any(trial.id in goes for trial in affordable) and room_for(site, dispatcher, trials) > 0:
        return Decision(wait="simulations", due=due)
    if sent and not dispatcher.by_people:
        return Decision(wait="simulations", due=due)
    if again:
        return Decision(wait="retry", due=due)
    if sent:
        return Decision(wait="laboratory")
    undecided = any(trial.state in (TrialState.PROPOSED, TrialState.APPROVED) for trial in affordable)
    if undecided or any(trial.state is TrialState.HELD for trial in trials):
        return Decision(wait="person")
    return None


def _only_pointless_proposals(site: Site, trials: tuple[Trial, ...], waits: Decision) -> bool:
    """Whether all that is left are proposals to a person, and a stop rule that holds makes them pointless."""
    left = {trial.state for trial in trials} & (OUT | {TrialState.APPROVED})
    return waits.wait == "person" and not left and stop_reason(site, trials) is not None


def _end(site: Site, trials: tuple[Trial, ...], spending: Spending) -> str | None:
    """Why the campaign ends now that nothing is out, in words that begin with the rule's name."""
    limits, budget = site.campaign.limits, site.campaign.spec.budget
    if reason := stop_reason(site, trials):
        return reason
    stuck = [
        why
        for trial in trials
        if trial.state in (TrialState.PROPOSED, TrialState.APPROVED)
        and (why := obstacle(trial, limits, spending, budget)) is not None
    ]
    if spent := exhausted(limits, spending, budget) or next(iter(stuck), None):
        return f"budget: {spent}"
    return nothing_to_learn_from(site, _counted(trials))


def _finished(site: Site, trials: tuple[Trial, ...], reason: str) -> Decision:
    """Record the end; what can no longer run is rejected with that reason, so that nothing waits for ever."""
    for trial in trials:
        if trial.state in (TrialState.PROPOSED, TrialState.APPROVED):
            try:
                site.ledger.move(trial.id, TrialState.REJECTED, trial.expect, ACTOR, reason)
            except StaleTrial:  # a person was faster: the next pass decides again
                return Decision(wait="person")
    site.ledger.finish(site.name, reason, ACTOR)
    tell("finished", reason=reason)
    return Decision(finished=reason)


def _counted(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that count: a rejected one leaves its place to another."""
    return [trial for trial in trials if trial.state is not TrialState.REJECTED]


def _left(site: Site, trials: Sequence[Trial]) -> int:
    """How many more trials may be proposed; imported ones count nothing."""
    own = [trial for trial in _counted(trials) if trial.origin.kind != "imported"]
    return site.campaign.spec.budget.trials - len(own)


def _next(site: Site, trials: tuple[Trial, ...]) -> Decision:
    spec, known = site.campaign.spec, len(_counted(trials))
    model = site.campaign.algorithm.learns(known)
    wanted = spec.algorithm.start.n - known
    iteration = 1 + max((trial.iteration for trial in trials), default=-1)
    return Decision(
        propose=min(wanted if wanted > 0 else spec.batch, _left(site, trials)), iteration=iteration, model=model
    )


def _warn(site: Site, spending: Spending) -> None:
    """Leave a notice, once, that a limit is nearly spent."""
    payload = nearly_spent(site.campaign.limits, spending, site.campaign.spec.budget)
    if payload is None or any(notice.key == "budget" for notice in site.ledger.notices(site.name)):
        return
    site.ledger.notify(site.name, "budget nearly spent", "budget", payload)
