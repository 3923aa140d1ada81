"""Waiting trials as data and as text: proposals, approved trials, work orders, retries."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fieldcraft.flows.analysis.incomplete import incomplete_data
from fieldcraft.flows.analysis.levels import level_data
from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.analysis.predicted import predicted_data
from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.rules.approval_policy import voided
from fieldcraft.flows.rules.retries import Retry, retries
from fieldcraft.flows.rules.trial_labels import label
from fieldcraft.flows.spec.campaign_file import stored
from fieldcraft.flows.text import ago, one_line, since, stated
from fieldcraft.flows.views.data import design_text, incomplete_text, predicted_text, quantity, recorded_text
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord, Trial, TrialState

_WAITING = frozenset({TrialState.PROPOSED, TrialState.APPROVED, TrialState.RUNNING, TrialState.HELD})


def queue_data(ledger: Ledger, campaign: CampaignRecord) -> dict[str, Any]:
    """Waiting trials of a campaign, each list in the order in which trials are sent."""
    spec, trials = stored(campaign.spec, f"campaign {campaign.name}"), ledger.trials(campaign.name, _WAITING)
    by_state = sorted(trials, key=lambda trial: (-trial.priority, trial.number))

    known = {
        item["trial"]: {**item, "text": incomplete_text(campaign, item)}
        for item in incomplete_data(ledger, campaign, trials)
    }

    def listed(state: TrialState, more: Callable[[Trial], Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**_entry(campaign, trial), **more(trial)} for trial in by_state if trial.state is state]

    def measured(more: Callable[[Ledger, Trial], Mapping[str, Any]], trial: Trial) -> dict[str, Any]:
        return {**more(ledger, trial), "incomplete": known.get(trial.id)}

    return {
        "campaign": campaign.name,
        "unit": spec.budget.unit,
        "policy": spec.approval.policy,
        "expires_h": spec.approval.expires_h,
        "waiting": listed(TrialState.PROPOSED, lambda trial: _asked(ledger, trial)),
        "approved": listed(TrialState.APPROVED, lambda trial: _approved(ledger, trial)),
        "laboratory": (
            listed(TrialState.RUNNING, lambda trial: measured(_ordered, trial)) if by_people(campaign) else []
        ),
        "held": listed(TrialState.HELD, lambda trial: measured(_held, trial)),
        "retries": [_retry(ledger, campaign, retry) for retry in retries(ledger, spec.dispatcher, campaign.name)],
    }


def queue_text(data: Mapping[str, Any], now: float) -> str:
    """The data of ``queue_data`` as text; ``now`` in seconds since the epoch."""
    parts: dict[str, list[str]] = {
        f"waiting for a decision (approval: {data['policy']})": [
            line for entry in data["waiting"] for line in _lines(data, entry, _asked_text(entry))
        ],
        "approved, not sent yet": [
            line for entry in data["approved"] for line in _lines(data, entry, _approved_text(entry, now))
        ],
        "with the laboratory": [
            line for entry in data["laboratory"] for line in _lines(data, entry, _ordered_text(entry, now))
        ],
        "held: a person must say what became of them": [
            line
            for entry in data["held"]
            for line in _lines(data, entry, [entry["reason"], *entry["remedies"], *_known_text(entry)])
        ],
        "failed in passing, to be sent again": [
            line for entry in data["retries"] for line in _lines(data, entry, _retry_text(entry, now))
        ],
    }
    filled = [line for heading, lines in parts.items() if lines for line in (f"  {heading}", *lines)]
    return "\n".join([f"{data['campaign']}:" if filled else f"{data['campaign']}: nothing waits", *filled])


def _entry(campaign: CampaignRecord, trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.id,
        "label": label(trial),
        "digest": trial.digest,
        "version": trial.version,
        "revision": trial.revision,
        "iteration": trial.iteration,
        "priority": trial.priority,
        "design": dict(trial.design),
        "units": {name: campaign.environment["units"].get(name, "") for name in trial.design},
        "design_text": design_text(campaign, trial.design),
        **level_data(campaign, trial.level),
        # A model foresaw what it proposed, not what was made of it.
        "foreseen": predicted_data(campaign, trial.origin) if trial.revision == 1 else None,
        "cost": trial.cost,
        "attempt": trial.attempt,
    }


def _asked(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    """Author of a proposal's last edit, and the reason why an earlier approval of it is void."""
    void = {"void": voided(ledger, trial) or None}
    if trial.revision == 1:
        return {"edited": None, **void}
    event = next(e for e in reversed(ledger.history(trial.campaign, trial.id)) if e.action == "edit")
    was = event.details.get("was", {})
    return {"edited": {"by": event.by, "at": event.created, "reason": event.reason, "was": was}, **void}


def _approved(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    approval = next((approval for approval in ledger.approvals(trial.id) if approval.live), None)
    kept = {"by", "comment", "policy", "attempts", "expires", "created"}
    return {"approval": approval and approval.model_dump(mode="json", include=kept)}


def _ordered(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    event = next(e for e in reversed(ledger.history(trial.campaign, trial.id)) if e.enters(TrialState.RUNNING))
    return {"order": attempt_key(trial), "since": event.created}


def _held(ledger: Ledger, trial: Trial) -> dict[str, Any]:
    event = next(e for e in reversed(ledger.history(trial.campaign, trial.id)) if e.enters(TrialState.HELD))
    return {
        "reason": event.reason,
        "since": event.created,
        "remedies": [
            f"'fieldcraft record {trial.id}' takes its result, where it was done",
            f"'fieldcraft retry {trial.id}' sends it again, where it was not",
            f"'fieldcraft abandon {trial.id}' gives it up",
        ],
    }


def _retry(ledger: Ledger, campaign: CampaignRecord, retry: Retry) -> dict[str, Any]:
    failures = [e for e in ledger.history(campaign.name, retry.trial.id) if e.enters(TrialState.FAILED)]
    return {
        **_entry(campaign, retry.trial),
        "reason": failures[-1].reason,
        "due": retry.due,
        "number": retry.number,
        "allowed": retry.allowed,
    }


def _lines(data: Mapping[str, Any], entry: Mapping[str, Any], notes: Iterable[str]) -> list[str]:
    head = [f"iteration {entry['iteration']}", f"cost {quantity(float(entry['cost']), data['unit'])}"]
    if entry.get("level"):
        head.append(entry["level"])
    if entry["priority"]:
        head.append(f"priority {entry['priority']}")
    lines = [f"    {entry['label']}  {', '.join(head)}", f"        {entry['design_text']}"]
    if foreseen := entry["foreseen"]:
        lines.append(f"        foreseen {predicted_text(foreseen)}")
    return lines + [f"        {one_line(note)}" for note in notes]


def _asked_text(entry: Mapping[str, Any]) -> list[str]:
    edited = entry["edited"]
    why = f": {edited['reason']}" if edited and edited["reason"] else ""
    asks = f"'fieldcraft predict {entry['trial']}' says what is predicted of it"
    lines = [f"edited by {edited['by']}, revision {entry['revision']}{why}", asks] if edited else []
    return [*lines, f"approval void: {entry['void']}"] if entry["void"] else lines


def _approved_text(entry: Mapping[str, Any], now: float) -> list[str]:
    approval = entry["approval"]
    if approval is None:
        return []
    comment = f": {approval['comment']}" if approval["comment"] else ""
    expires = approval["expires"]
    until = "" if expires is None else f"; expires in {ago(expires, now)}" if expires > now else "; has expired"
    return [f"approved by {approval['by']}{comment}{until}"]


def _ordered_text(entry: Mapping[str, Any], now: float) -> list[str]:
    asked = f"order {entry['order']}, given {since(entry['since'], now)}"
    known = entry["incomplete"]
    values = " ".join(stated(name, "NUMBER") for name in (known["missing"] if known else ["NAME"]))
    what = "the rest" if known else "its result"
    return [
        f"{asked}: 'fieldcraft record {entry['trial']} {values}' takes {what}",
        *_known_text(entry),
    ]


def _known_text(entry: Mapping[str, Any]) -> list[str]:
    known = entry["incomplete"]
    return [known["text"], recorded_text(known)] if known else []


def _retry_text(entry: Mapping[str, Any], now: float) -> list[str]:
    when = f"in {ago(entry['due'], now)}" if entry["due"] > now else "in the next pass"
    return [f"{entry['reason']}; retry {entry['number']} of {entry['allowed']} {when}"]


def queue_of(ledger: Ledger, campaigns: Iterable[CampaignRecord]) -> tuple[list[dict[str, Any]], Callable[[], str]]:
    """Waiting trials of several campaigns: the data, and a function that makes the text."""
    data = [queue_data(ledger, campaign) for campaign in campaigns]
    return data, lambda: "\n".join(queue_text(one, time.time()) for one in data) or "No campaign yet."
