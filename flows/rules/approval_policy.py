"""Approval policy of a campaign: automatic approvals, the trials that may be sent, and when approvals expire."""

from collections.abc import Sequence

from fieldcraft.flows.spec.campaign_file import Approval, CampaignSpec
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial, TrialState, TrialSummary


def automatic(approval: Approval, trials: Sequence[Trial | TrialSummary]) -> frozenset[str]:
    """Ids of the proposals that the policy approves by itself; ``after_first`` counts and so needs all trials."""
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


def expiry(spec: CampaignSpec, now: float) -> float | None:
    """Expiry of an approval that a person gives now, in seconds since the epoch; None for never."""
    hours = spec.approval.expires_h
    return None if hours is None else now + 3600.0 * hours


def ready(spec: CampaignSpec, trials: Sequence[Trial]) -> list[Trial]:
    """The approved trials that may be sent, in sending order: by priority, then by number.

    Under the policy ``batch`` no trial of an iteration is sent while one of its trials waits for a decision.

    Args:
        spec: The campaign's specification.
        trials: At least all trials that are proposed or approved.
    """
    undecided = {trial.iteration for trial in trials if trial.state is TrialState.PROPOSED}
    blocked = undecided if spec.approval.policy == "batch" else set()
    approved = [t for t in trials if t.state is TrialState.APPROVED and t.iteration not in blocked]
    return sorted(approved, key=lambda trial: (-trial.priority, trial.number))


def voided(ledger: Ledger, trial: Trial) -> str:
    """Reason why a proposal that was approved unchanged has to be approved again; empty for any other."""
    if trial.version == 1:
        return ""
    changes = [event for event in ledger.history(trial.campaign, trial.id) if event.action in ("move", "edit")]
    last = changes[-1] if changes else None
    return last.reason if last and last.action == "move" and last.after is TrialState.PROPOSED else ""
