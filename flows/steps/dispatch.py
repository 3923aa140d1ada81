"""Step 2, dispatch: reconcile trials that may have been sent, retry failures, send approved trials."""

import time
from collections.abc import Sequence

from fieldcraft.flows.jobs.dispatcher import CannotTell, Dispatcher, Job
from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.rules.approval_policy import ready
from fieldcraft.flows.rules.approved_code import Covered, covered
from fieldcraft.flows.rules.budget import obstacle
from fieldcraft.flows.rules.retries import Retry, retries
from fieldcraft.flows.rules.stopping import stop_reason
from fieldcraft.flows.steps.approve import lapse, no_longer_holds
from fieldcraft.flows.text import said
from fieldcraft.flows.wiring.context import ACTOR, Site
from fieldcraft.storage.ledger import BudgetSpent, ForbiddenMove, StaleTrial
from fieldcraft.storage.records import Trial, TrialState, TrialSummary

_WAITING = frozenset({TrialState.PROPOSED, TrialState.APPROVED})
_TO_SEND = frozenset({TrialState.STAGED, TrialState.APPROVED})


def dispatch(site: Site) -> int:
    """Send approved trials as far as there is room. Returns the number sent.

    While a stop rule holds no trial is claimed. Trials that a person changed meanwhile, and those that budget or
    approval do not cover now, are left as they are.
    """
    dispatcher, (claimed, approved, again) = site.campaign.dispatcher, _to_send(site)
    if not (claimed or approved or again):
        return 0
    now = covered(site.campaign.spec, site.campaign.settings)
    sent = sum(_send(site, dispatcher, trial, now) for trial in claimed)
    if site.ledger.campaign(site.name).finished is not None:
        return sent
    if lapse(site, now.code) or claimed:  # to send takes time, in which people decide
        _, approved, again = _to_send(site)
    if not (approved or again) or stop_reason(site) is not None:
        return sent
    if _retry(site, again):
        lapse(site, now.code)
    trials = site.ledger.trials(site.name, states=_WAITING | {TrialState.RUNNING})
    room = room_for(site, dispatcher, trials)
    for trial in ready(site.campaign.spec, [trial for trial in trials if trial.state in _WAITING]):
        if room <= 0:
            break
        staged = _claim(site, trial, now)
        if staged is not None:
            room -= 1
            sent += _send(site, dispatcher, staged, now)
    return sent


def _to_send(site: Site) -> tuple[list[Trial], list[Trial], list[Retry]]:
    """Trials that are claimed, perhaps sent; those that are approved; and the coming retries."""
    trials = site.ledger.trials(site.name, states=_TO_SEND)
    claimed = [trial for trial in trials if trial.state is TrialState.STAGED]
    approved = [trial for trial in trials if trial.state is TrialState.APPROVED]
    return claimed, approved, retries(site.ledger, site.campaign.spec.dispatcher, site.name)


def obstacle_to(site: Site, trial: Trial) -> str | None:
    """Limit of the budget that keeps a trial from being sent now; None where none does."""
    limits, spending = site.campaign.limits, site.ledger.spending(site.name)
    return obstacle(trial, limits, spending, site.campaign.spec.budget)


def room_for(site: Site, dispatcher: Dispatcher, trials: Sequence[Trial | TrialSummary]) -> float:
    """Number of trials that may be sent now; unlimited for people."""
    if dispatcher.by_people:
        return float("inf")
    busy = sum(trial.state is TrialState.RUNNING for trial in trials)
    return max(0, site.campaign.spec.dispatcher.parallel - busy)


def _claim(site: Site, trial: Trial, now: Covered) -> Trial | None:
    try:
        return site.ledger.move(trial.id, TrialState.STAGED, trial.expect, ACTOR, "claimed for dispatch", code=now.code)
    except (StaleTrial, BudgetSpent):
        return None
    except ForbiddenMove as error:  # the approval has run out just now, or is not for what would run
        tell("unsent", trial=trial, reason=str(error))
        return None


def _send(site: Site, dispatcher: Dispatcher, staged: Trial, now: Covered) -> int:
    """Submit a staged trial unless its key was started already, as the dispatcher knows after a crash."""
    key, handle = attempt_key(staged), None
    try:
        handle = dispatcher.find(key)
        reason = "found again after a crash" if handle else "submitted"
        if handle is None and (why := no_longer_holds(site, staged, now.code)) is not None:
            return _take_back(site, staged, f"{why} before it was sent")
        if handle is None:
            handle = dispatcher.submit(Job(staged.id, key, request_of(site, staged, now)))
        site.ledger.move(staged.id, TrialState.RUNNING, staged.expect, ACTOR, reason, handle=handle)
    except CannotTell as error:
        return _hold(site, staged, f"{error}; a person must say")
    except StaleTrial:  # a person gave it up meanwhile
        if handle is not None:
            dispatcher.cancel(handle)
        return 0
    tell("started", trial=staged)
    return 1


def _take_back(site: Site, staged: Trial, reason: str) -> int:
    """Fail a trial that was claimed, not sent, and may no longer be sent; it needs another approval."""
    site.ledger.move(
        staged.id, TrialState.FAILED, staged.expect, ACTOR, reason, failure="transient", cost=0.0, seconds=0.0
    )
    tell("failed", trial=staged, reason=reason)
    return 0


def _hold(site: Site, staged: Trial, why: str) -> int:
    reason = said(why)
    try:
        site.ledger.move(staged.id, TrialState.HELD, staged.expect, ACTOR, reason)
    except StaleTrial:
        return 0
    tell("held", trial=staged, reason=reason)
    return 0


def request_of(site: Site, trial: Trial, now: Covered) -> dict[str, object]:
    """Description of a trial for the dispatcher, with ``repeat`` if its design is proposed once more."""
    spec, repeat = site.campaign.spec, trial.origin.remarks.get("repeat")
    simulator = spec.simulator if trial.level is None else site.campaign.level(trial.level).component
    return {
        **({} if repeat is None or trial.revision > 1 else {"repeat": repeat}),
        "problem": spec.problem.model_dump(),
        "simulator": simulator and simulator.model_dump(),
        "design": dict(trial.design),
        "units": site.campaign.problem.space.units,
        **({"absent": absent} if (absent := _absent(site, trial)) else {}),
        "outputs": {output.name: output.unit for output in site.campaign.problem.measured},
        "digest": trial.digest,
        "code": dict(now.run),
        "seed": spec.seed,
        "iteration": trial.iteration,
        "slot": trial.slot,
    }


def _absent(site: Site, trial: Trial) -> list[str]:
    """Variables that do not exist in a trial's design."""
    told = site.campaign.problem.space.folds.existing(trial.design)
    return [name for name in trial.design if name not in told]


def _retry(site: Site, coming: Sequence[Retry]) -> int:
    """Put transient failures that are due and within the budget back to APPROVED. Returns their number."""
    count = 0
    due = [retry for retry in coming if retry.due <= time.time()]
    for retry in due:
        if obstacle_to(site, retry.trial) is not None:
            continue
        reason = f"retry {retry.number} of {retry.allowed} under the same approval"
        try:
            site.ledger.move(retry.trial.id, TrialState.APPROVED, retry.trial.expect, ACTOR, reason)
        except StaleTrial:
            continue
        except ForbiddenMove as error:
            tell("unsent", trial=retry.trial, reason=str(error))
            continue
        tell("retry", trial=retry.trial, reason=reason)
        count += 1
    return count
