"""Step 7, approve: the campaign's policy decides, and writes the same record as a person would."""

import time

from fieldcraft.flows.identity import AUTOMATIC
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.rules.approval_policy import automatic, voided
from fieldcraft.flows.rules.approved_code import covered, listed, uncovered
from fieldcraft.flows.spec.campaign_file import CampaignSpec
from fieldcraft.flows.wiring.context import ACTOR, Site
from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger import ForbiddenMove, StaleTrial
from fieldcraft.storage.records import Approval as Granted
from fieldcraft.storage.records import Trial, TrialState, digest_of

EXPIRED = "approval expired"
_WAITING = "approval waiting"


def approve(site: Site) -> tuple[Trial, ...]:
    """Approve what the policy lets through, each trial bound to the digest of exactly what will run.

    What is left waits for a person, and a notice says so whenever a trial has come to wait that no earlier notice tells
    of. A policy's approval does not expire: the policy would only give it again.
    """
    code = covered(site.campaign.spec, site.campaign.settings).code
    lapse(site, code)
    waiting = site.ledger.trials(site.name, states={TrialState.PROPOSED})
    policy = site.campaign.spec.approval
    allowed = automatic(policy, site.ledger.briefs(site.name) if policy.policy == "after_first" else waiting)
    chosen = [trial for trial in waiting if trial.id in allowed]
    since = _changed_since(site, code) if chosen else ""
    approved = tuple(done for trial in chosen if (done := _approve(site, trial, code, since)) is not None)
    _notify(site)
    return approved


def lapse(site: Site, code: Code) -> tuple[Trial, ...]:
    """Put approved trials whose approval no longer holds back to the proposals; a pass does so before it sends any.

    Under the policy ``batch`` the others of its iteration go back with such a trial: they would wait for it, and theirs
    run out, one after the other, for ever.

    Args:
        site: The campaign's stores.
        code: What would run now.
    """
    unused = site.ledger.unused(site.name)
    reasons = {trial: why for trial, one in unused.items() if (why := _why_void(site, one, code)) is not None}
    if not reasons:
        return ()
    approved = site.ledger.trials(site.name, states={TrialState.APPROVED})
    gone = {trial.id: reasons[trial.id] for trial in approved if trial.id in reasons}
    if site.campaign.spec.approval.policy == "batch":
        iterations = {trial.iteration: gone[trial.id] for trial in reversed(approved) if trial.id in gone}
        gone = {t.id: gone.get(t.id, iterations[t.iteration]) for t in approved if t.iteration in iterations}
    done = (_put_back(site, trial, gone[trial.id]) for trial in approved if trial.id in gone)
    return tuple(trial for trial in done if trial is not None)


def no_longer_holds(site: Site, trial: Trial, code: Code) -> str | None:
    """Why the approval under which a trial was claimed no longer holds for this code; None while it does."""
    live = (approval for approval in site.ledger.approvals(trial.id) if approval.live)
    return next((why for one in live if (why := _why_void(site, one, code)) is not None), None)


def _why_void(site: Site, approval: Granted, code: Code) -> str | None:
    if approval.expires is not None and approval.expires <= time.time():
        return EXPIRED
    return None if approval.code == code.digest else uncovered(approval, code, site.ledger.codes(site.name))


def _approve(site: Site, trial: Trial, code: Code, since: str) -> Trial | None:
    """Approve by policy; None where a person was faster, whose word holds, or the ledger finds the trial altered.

    Args:
        site: The campaign's stores.
        trial: The proposal.
        code: What would run it.
        since: What has changed of it since the campaign's latest approval.
    """
    policy, attempts = site.campaign.spec.approval.policy, site.campaign.spec.dispatcher.attempts
    notes = (_reason(site.campaign.spec, trial), voided(site.ledger, trial) or since)
    comment = "; ".join(note for note in notes if note)
    try:
        return site.ledger.approve(
            trial.id, trial.expect, trial.digest, f"{AUTOMATIC}{policy}", comment, policy, attempts, code=code
        )
    except StaleTrial:
        return None
    except ForbiddenMove as error:  # what would run is not what was proposed
        tell("unsent", trial=trial, reason=str(error))
        return None


def _changed_since(site: Site, code: Code) -> str:
    """What has changed of the code since the campaign's latest approval, in words; empty where nothing is known to."""
    latest = site.ledger.last_approved(site.name)
    if latest is None or latest.details.get("code") in (None, code.digest):
        return ""
    before = site.ledger.codes(site.name).get(latest.details["code"])
    return "" if before is None else f"{listed(before.differing(code))} changed since {latest.trial} was approved"


def _reason(spec: CampaignSpec, trial: Trial) -> str:
    match spec.approval.policy:
        case "auto_below_cost":
            return f"its cost {trial.cost:g} is below {spec.approval.cost:g}"
        case "after_first":
            return f"it comes after the first {spec.approval.first} trials"
        case _:
            return ""


def _put_back(site: Site, trial: Trial, reason: str) -> Trial | None:
    try:
        done = site.ledger.move(trial.id, TrialState.PROPOSED, trial.expect, ACTOR, reason)
    except StaleTrial:
        return None
    tell("approval void", trial=trial, reason=reason)
    return done


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
        "void": sorted({why for trial in waiting if (why := voided(site.ledger, trial))}),
        "remedy": f"'fieldcraft queue {site.name}' shows them",
    }
    site.ledger.notify(site.name, _WAITING, f"approval:{digest_of(news)}", payload)
