"""Events of a campaign's history in a reader's words."""

from collections.abc import Mapping

from fieldcraft.flows.analysis.picks import how_text
from fieldcraft.flows.text import counted
from fieldcraft.flows.views.data import design_text
from fieldcraft.storage.records import CampaignRecord, Event, Step, TrialState

_MOVED: Mapping[TrialState, str] = {
    TrialState.PROPOSED: "put back for approval",
    TrialState.APPROVED: "allowed another attempt",
    TrialState.STAGED: "claimed for sending",
    TrialState.RUNNING: "sent",
    TrialState.FAILED: "noted a failure",
    TrialState.ABANDONED: "gave up for good",
    TrialState.REJECTED: "rejected",
    TrialState.HELD: "held",
}
_NOTED: Mapping[Step, str] = {
    "collocate": "drew points of the equation",
    "train": "trained the model",
    "acquire": "chose designs",
    "emulate": "trained the emulator",
    "warm_start": "weighed earlier results",
}
_RECORDED: Mapping[str, str] = {
    "accepted": "recorded a result",
    "partial": "recorded a part of a result",
    "duplicate": "sent the same result again",
    "superseded": "sent a result that came too late to count",
}
_OF_CAMPAIGN: Mapping[str, str] = {
    "create": "wrote the campaign down",
    "lease": "took over the passes",
    "finish": "ended the campaign",
    "upgrade": "upgraded the ledger",
    "repair": "repaired",
    "seal": "sealed the campaign for a move",
    "unseal": "took the move back",
    "restore": "restored",
    "code": "recorded the code",
}


def event_text(campaign: CampaignRecord, event: Event) -> str:
    """An event in words, without who did it and why: ``approved for 3 attempts``, ``recorded a result``."""
    details = event.details
    match event.action:
        case "propose":
            return "proposed"
        case "import":
            return "imported"
        case "approve":
            policy = "" if details["policy"] == "manual" else " by policy"
            return f"approved{policy} for {counted(details['attempts'], 'attempt')}"
        case "edit":
            old, new = (design_text(campaign, details[each]) for each in ("was", "design"))
            return f"edited: {old} became {new}"
        case "prioritise":
            return f"priority {details['priority']}"
        case "pick":
            return f"picked from the front: {how_text(details['how'])}"
        case "record":
            return "withdrew parts of a result" if details.get("withdraws") else _RECORDED[details["verdict"]]
        case "correct":
            return "retracted" if details["verdict"] == "retraction" else "corrected"
        case "note":
            return f"{_NOTED[details['step']]}, iteration {details['iteration']}"
        case "move" if event.after is not None:
            return _MOVED.get(event.after, event.after.lower())
    return _OF_CAMPAIGN.get(event.action, event.action)
