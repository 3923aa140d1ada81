"""Step 2, dispatch: reconcile what may have been sent, retry what may be retried, send what is approved."""

from flows.dispatcher import CannotTell, Dispatcher, Job
from flows.progress import tell
from flows.sites import ACTOR, Site
from storage.records import Trial, TrialState


def attempt_key(trial: Trial) -> str:
    """The key of a trial's present attempt, under which a result is matched; never used again."""
    return f"{trial.id}-{trial.attempt}"


def attempt_keys(trial: Trial) -> list[str]:
    """The keys of all attempts of a trial so far."""
    return [f"{trial.id}-{attempt}" for attempt in range(1, trial.attempt + 1)]


def dispatch(site: Site) -> int:
    """Send approved trials as far as there is room; returns how many were sent."""
    dispatcher = site.campaign.dispatcher
    _retry(site)
    sent = sum(_send(site, dispatcher, trial) for trial in site.ledger.trials(site.name, states={TrialState.STAGED}))
    busy = len(site.ledger.trials(site.name, states={TrialState.RUNNING}))
    room = max(0, site.campaign.spec.dispatcher.parallel - busy)
    for trial in site.ledger.trials(site.name, states={TrialState.APPROVED})[:room]:
        staged = site.ledger.move(trial.id, TrialState.STAGED, trial.expect, ACTOR, "claimed for dispatch")
        sent += _send(site, dispatcher, staged)
    return sent


def _send(site: Site, dispatcher: Dispatcher, staged: Trial) -> int:
    """Submit a staged trial unless its key was begun already; after a crash only the dispatcher knows."""
    key = attempt_key(staged)
    try:
        handle = dispatcher.find(key)
    except CannotTell as error:
        site.ledger.move(staged.id, TrialState.HELD, staged.expect, ACTOR, f"{error}; a person must say")
        return 0
    reason = "found again after a crash" if handle else "submitted"
    if handle is None:
        handle = dispatcher.submit(Job(staged.id, key, _request(site, staged)))
    site.ledger.move(staged.id, TrialState.RUNNING, staged.expect, ACTOR, reason, handle=handle)
    tell("started", trial=staged)
    return 1


def _request(site: Site, trial: Trial) -> dict[str, object]:
    spec = site.campaign.spec
    return {
        "problem": spec.problem.model_dump(),
        "simulator": spec.simulator.model_dump(),
        "design": dict(trial.design),
        "seed": spec.seed,
        "iteration": trial.iteration,
        "slot": trial.slot,
    }


def _retry(site: Site) -> None:
    """Failures in passing go back to APPROVED while their approval has attempts left."""
    for trial in site.ledger.trials(site.name, states={TrialState.FAILED}):
        if trial.failure != "transient":
            continue
        allowed = max((approval.attempts for approval in site.ledger.approvals(trial.id) if approval.live), default=0)
        if trial.attempt < allowed:
            reason = f"retry {trial.attempt} of {allowed - 1} under the same approval"
            site.ledger.move(trial.id, TrialState.APPROVED, trial.expect, ACTOR, reason)
