"""Step 7, approve: approve proposals by the campaign's policy, with the same record as a person's approval."""

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
    """Approve the proposals that the policy allows, each bound to the digest of exactly what will run.

    The others wait for a person; a notice is left for each that no earlier notice names. A policy's approval does not
    expire, because the policy would only give it again.
    """
    code = covered(site.campaign.spec, site.campaign.settings).code
    lapse(site, code)
    waiting = site.ledger.trials(site.name, states={TrialState.PROPOSED})
    policy = site.campaign.spec.approval
    allowed = automatic(policy, site.ledger.summaries(site.name) if policy.policy == "after_first" else waiting)
    chosen = [trial for trial in waiting if trial.id in allowed]
    since = _changed_since(site, code) if chosen else ""
    approved = tuple(done for trial in chosen if (done := _approve(site, trial, code, since)) is not None)
    if len(approved) < len(waiting):
        _notify(site)
    return approved


def lapse(site: Site, code: Code) -> tuple[Trial, ...]:
    """Put approved trials whose approval is void back to the proposals; a pass calls this before it sends any.

    Under the policy ``batch`` the other trials of the iteration go back with such a trial. Otherwise they would wait
    for it until their approvals expire, one after the other.

    Args:
        site: The campaign's stores.
        code: The code that would run now.
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
    """Reason why the approval of a claimed trial is void for this code; None while it holds."""
    live = (approval for approval in site.ledger.approvals(trial.id) if approval.live)
    return next((why for one in live if (why := _why_void(site, one, code)) is not None), None)


def _why_void(site: Site, approval: Granted, code: Code) -> str | None:
    if approval.expires is not None and approval.expires <= time.time():
        return EXPIRED
    return None if approval.code == code.digest else uncovered(approval, code, site.ledger.codes(site.name))


def _approve(site: Site, trial: Trial, code: Code, since: str) -> Trial | None:
    """Approve by policy; None if a person changed the trial first, or the ledger finds the trial altered.

    Args:
        site: The campaign's stores.
        trial: The proposal.
        code: The code that would run it.
        since: Changes of that code since the campaign's latest approval, in words.
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
    """Changes of the code since the campaign's latest approval, in words; empty where none are known."""
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
