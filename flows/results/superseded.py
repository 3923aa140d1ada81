"""Results that were kept and do not count: the reason, and the way in which they come to count."""

from fieldcraft.storage.records import Trial, TrialState

_EDITED = ", and say what was really run if the design was edited since"


def superseded_text(trial: Trial, counts: str) -> str:
    """A result that was kept as superseded, in one line.

    Args:
        trial: Its trial as it is now.
        counts: The outputs that count, in words; empty where none do.
    """
    known = "; ".join(filter(None, (f"{counts or 'no value'} counts", _way(trial))))
    return f"{trial.id}: kept as superseded; it is {trial.state} ({known})."


def _way(trial: Trial) -> str:
    match trial.state:
        case TrialState.COMPLETED:
            return f"'fieldcraft correct' or the form of {trial.id} at the desk changes that"
        case TrialState.PROPOSED | TrialState.APPROVED | TrialState.STAGED:
            return f"{trial.id} is still to be sent again: if it is to count, record it then{_EDITED}"
        case TrialState.RUNNING | TrialState.HELD | TrialState.FAILED:
            return f"it is of an earlier order: if it is to count, record it for {trial.id}, not for its key{_EDITED}"
        case _:
            return ""
