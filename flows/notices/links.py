"""Pages of the desk that notices lead to."""

from fieldcraft.storage.records import Notice


def page_of(notice: Notice) -> str:
    """Path of the desk's page for a notice: the cards that wait, the trial that is held, else the campaign."""
    trials = notice.payload.get("trials", ())
    match notice.event:
        case "approval waiting":
            return card_of(notice.campaign, trials[0]) if len(trials) == 1 else f"/queue/{notice.campaign}"
        case "submission unknown" if "trial" in notice.payload:
            return trial_page(notice.campaign, notice.payload["trial"])
        case _:
            return f"/campaign/{notice.campaign}"


def card_of(campaign: str, trial: str) -> str:
    """Path of a proposal's card."""
    return f"/queue/{campaign}#t-{trial}"


def trial_page(campaign: str, trial: str) -> str:
    """Path of a trial's page."""
    return f"/campaign/{campaign}/trial/{trial}"
