"""Step 7, approve: the campaign's policy decides, and writes the same record as a person would."""

import time
from collections.abc import Sequence

from flows.identity import AUTOMATIC
from flows.progress import tell
from flows.sites import ACTOR, Site
from flows.spec import Approval, CampaignSpec
from storage.ledger import ForbiddenMove, StaleTrial
from storage.records import Brief, Trial, TrialState, digest_of

EXPIRED = "approval expired"
_WAITING = "approval waiting"


def approve(site: Site) -> tuple[Trial, ...]:
    """Approve what the policy lets through, each trial bound to the digest of exactly what will run.

    What is left waits for a person, and a notice says so whenever a trial has come to wait that no earlier notice tells
    of. A policy's approval does not expire: the policy would only give it again.
    """
    expire(site)
    waiting = site.ledger.trials(site.name, states={TrialState.PROPOSED})
    policy = site.campaign.spec.approval
    allowed = automatic(policy, site.ledger.briefs(site.name) if policy.policy == "after_first" else waiting)
    approved = tuple(done for trial in waiting if trial.id in allowed and (done := _approve(site, trial)) is not None)
    _notify(site)
    return approved


def automatic(approval: Approval, trials: Sequence[Trial | Brief]) -> frozenset[str]:
    """Ids of the proposals that the policy approves by itself; ``after_first`` counts, so it needs all trials."""
    own = sorted((trial for trial in trials if not trial.imported), key=lambda trial: trial.number)
    proposed = [trial for trial in own if trial.state is TrialState.PROPOSED]
    match approval.policy:
        case "auto":
            return frozenset(trial.id for trial in proposed)
        case "auto_below_cost":
            assert approval.cost is not None  # this policy's option
            return frozenset(trial.id for trial in proposed if trial.cost < approval.cost)
        case "after_first":
            later = {trial.id for trial in own[approval.first :]}
            return frozenset(trial.id for trial in proposed if trial.id in later)
        case "human" | "batch":
            return frozenset()


def expire(site: Site) -> tuple[Trial, ...]:
    """Put approved trials whose approval has run out back to the proposals; a pass does so before it sends any.

    Under the policy ``batch`` the others of its iteration go back with such a trial: they would wait for it, and theirs
    run out, one after the other, for ever.
    """
    policy = site.campaign.spec.approval
    if policy.expires_h is None:
        return ()
    approved = site.ledger.trials(site.name, states={TrialState.APPROVED})
    gone = [trial for trial in approved if has_expired(site, trial)]
    if policy.policy == "batch":
        gone = [trial for trial in approved if trial.iteration in {one.iteration for one in gone}]
    return tuple(done for trial in gone if (done := _expire(site, trial)) is not None)


def expiry(spec: CampaignSpec, now: float) -> float | None:
    """Until when an approval that a person gives now may be used, in seconds since the epoch; None for ever."""
    hours = spec.approval.expires_h
    return None if hours is None else now + 3600.0 * hours


def has_expired(site: Site, trial: Trial) -> bool:
    """Whether the approval that a trial stands under has run out."""
    live = [approval for approval in site.ledger.approvals(trial.id) if approval.live]
    return any(approval.expires is not None and approval.expires <= time.time() for approval in live)


def ready(spec: CampaignSpec, trials: Sequence[Trial]) -> list[Trial]:
    """The approved trials that may be sent, in the order in which to send them: by priority, then by number.

    Under the policy ``batch`` no trial of an iteration goes while one of its trials waits for a decision.

    Args:
        spec: The campaign's specification.
        trials: Those proposed and approved, or more.
    """
    undecided = {trial.iteration for trial in trials if trial.state is TrialState.PROPOSED}
    blocked = undecided if spec.approval.policy == "batch" else set()
    approved = [t for t in trials if t.state is TrialState.APPROVED and t.iteration not in blocked]
    return sorted(approved, key=lambda trial: (-trial.priority, trial.number))


def _approve(site: Site, trial: Trial) -> Trial | None:
    """Approve by policy; None where a person was faster, whose word holds, or the ledger finds the trial altered."""
    policy, attempts = site.campaign.spec.approval.policy, site.campaign.spec.dispatcher.attempts
    comment = _reason(site.campaign.spec, trial)
    try:
        return site.ledger.approve(
            trial.id, trial.expect, trial.digest, f"{AUTOMATIC}{policy}", comment, policy, attempts
        )
    except StaleTrial:
        return None
    except ForbiddenMove as error:  # what would run is not what was proposed
        tell("unsent", trial=trial, reason=str(error))
        return None


def _reason(spec: CampaignSpec, trial: Trial) -> str:
    match spec.approval.policy:
        case "auto_below_cost":
            return f"its cost {trial.cost:g} is below {spec.approval.cost:g}"
        case "after_first":
            return f"it comes after the first {spec.approval.first} trials"
        case _:
            return ""


def _expire(site: Site, trial: Trial) -> Trial | None:
    try:
        return site.ledger.move(trial.id, TrialState.PROPOSED, trial.expect, ACTOR, EXPIRED)
    except StaleTrial:
        return None


def _notify(site: Site) -> None:
    waiting = site.ledger.trials(site.name, states={TrialState.PROPOSED})
    if not waiting:
        return
    earlier = (notice.payload for notice in site.ledger.noticed(site.name, _WAITING))
    known = {pair for told in earlier for pair in zip(told["trials"], told.get("versions", ()), strict=False)}
    news = [(trial.id, trial.version) for trial in waiting if (trial.id, trial.version) not in known]
    if not news:
        return
    payload = {
        "trials": [trial.id for trial in waiting],
        "versions": [trial.version for trial in waiting],
        "cost": sum(trial.cost for trial in waiting),
        "remedy": f"'fieldcraft queue {site.name}' shows them",
    }
    site.ledger.notify(site.name, _WAITING, f"approval:{digest_of(news)}", payload)
