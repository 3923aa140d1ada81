"""A person's pick from the front of several objectives, recorded with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fieldcraft.flows.analysis.front import front_data
from fieldcraft.flows.analysis.picks import as_weights, by_weights, knee, require_on_front, several
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.people.decisions import Overtaken, one_winner, require_seen
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.text import remark
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import Trial


@dataclass(frozen=True)
class Wanted:
    """A wish: exactly one of a trial, the knee, and the best by weights.

    Args:
        trial: The trial, as it was seen.
        knee: True for the knee of the front.
        weights: A weight of each objective.
        version: Version of the trial that was seen, which a correction of its result changes; None for any.

    Raises:
        InputError: none of them is given, or several, or ``knee`` is neither true nor false.
    """

    trial: Choice | None = None
    knee: bool = False
    weights: Mapping[str, float] | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.knee, bool):
            raise InputError(f"knee is {self.knee!r}: give True or False. Nothing was recorded.")
        if (self.trial is not None) + self.knee + (self.weights is not None) != 1:
            raise InputError("Give exactly one of a trial, the knee and weights. Nothing was recorded.")


def pick(ledger: Ledger, person: Person, campaign: str, wanted: Wanted, why: str) -> Trial:
    """Record a pick; the latest of a campaign counts, and all stay in its history.

    Args:
        ledger: Ledger of the campaign.
        person: Who picks.
        campaign: Name of the campaign.
        wanted: What to pick.
        why: The reason.

    Raises:
        decisions.Overtaken: the trial has changed since it was seen.
        InputError: there is no reason or one objective, the trial is not on the front, or the front has no such point.
    """
    if not remark(why, "reason").strip():
        raise InputError("A pick without a reason teaches nobody: give one. Nothing was recorded.")
    record = ledger.campaign(campaign)
    found = several(record, front_data(record, ledger.summaries(campaign)))
    how: dict[str, Any]
    if wanted.trial is not None:
        trial, how = ledger.trial(wanted.trial.trial), {"rule": "by name"}
        if trial.campaign != campaign:
            raise InputError(f"{trial.id} is a trial of {trial.campaign!r}, not of {campaign!r}. Nothing was recorded.")
        require_seen(ledger, wanted.trial, trial)
        if wanted.version not in (None, trial.version):
            raise Overtaken(
                f"The result of {trial.id} is not what you saw: it was corrected since. Look at it again. Nothing was "
                "recorded."
            )
    elif wanted.knee:
        trial, how = ledger.trial(knee(found)), {"rule": "the knee"}
    else:
        weights = as_weights(wanted.weights or {})
        trial, how = ledger.trial(by_weights(found, weights)), {"rule": "weights", "weights": weights}
    require_on_front(record, found, trial)
    with one_winner(ledger, [trial]):
        ledger.pick(trial.id, trial.expect, person.name, why.strip(), how)
    return trial
