"""Reasons for campaigns whose trials have all failed, so that such an end is not taken for a success."""

from collections import Counter
from collections.abc import Sequence

from fieldcraft.flows.text import counted, one_line
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import TrialState, TrialSummary

_NAMED = 8  # trials that a next step names
_ENDED = (TrialState.FAILED, TrialState.ABANDONED)


def fruitless(ledger: Ledger, name: str, trials: Sequence[TrialSummary]) -> str | None:
    """Reason why all trials of a campaign failed, in words; None where one did not, or none was tried.

    Imported trials, runs of coarser levels, and those that people rejected or took back, do not count.

    Args:
        ledger: Ledger of the campaign.
        name: The campaign.
        trials: All its trials, in brief.
    """
    own = [t for t in trials if not t.imported and t.level is None and t.state is not TrialState.REJECTED]
    if not own or any(trial.state not in _ENDED for trial in own):
        return None
    reasons = _reasons(ledger, name)
    told = Counter(reasons.get(trial.id, trial.state.lower()) for trial in own)
    reason, times = told.most_common(1)[0]
    share = "" if times == len(own) else f", {times} of them"
    all_of = "the only trial" if len(own) == 1 else f"all {counted(len(own), 'trial')}"
    return f"{all_of} failed{share}: {one_line(reason)}"


def mending(name: str, trials: Sequence[TrialSummary], finished: str | None) -> str:
    """The next step for a campaign of which ``fruitless`` gives a reason.

    Args:
        name: The campaign.
        trials: All its trials, in brief.
        finished: Reason why it has ended; None while it goes on.
    """
    failed = [trial.id for trial in trials if trial.state is TrialState.FAILED]
    if not failed:
        return "every trial was given up: begin a campaign of another name"
    where = f"mend what failed ('fieldcraft show {failed[0]}' says more)"
    if finished:
        return f"{where}, and begin a campaign of another name: this one sends nothing more"
    return f"{where}, then 'fieldcraft retry {' '.join(failed[:_NAMED])}{' ...' if len(failed) > _NAMED else ''}'"


def _reasons(ledger: Ledger, name: str) -> dict[str, str]:
    """The reason of the last failure of each trial, by its id."""
    return {
        event.trial: event.reason
        for event in ledger.history(name)
        if event.trial is not None and event.enters(TrialState.FAILED)
    }
