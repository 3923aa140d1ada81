"""Trials of which some outputs are measured and others are still to come.

Reads records alone: no torch, no solver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import OUT, CampaignRecord, Level, Trial, TrialSummary


@dataclass(frozen=True)
class Incomplete:
    """Known outputs of a trial that is out.

    Args:
        trial: Id of the trial.
        result: Number of its latest part, which has the outputs of all parts of the attempt.
        design: The design, as it was run where the part says so.
        outputs: The outputs that are known, in their units.
        sd: Standard deviations that the parts state, in the same units.
    """

    trial: str
    result: int
    design: Mapping[str, Level]
    outputs: Mapping[str, float]
    sd: Mapping[str, float]

    def missing(self, campaign: CampaignRecord) -> list[str]:
        """Outputs that are still to be measured."""
        measured = [each["name"] for each in campaign.environment["outputs"] if not each.get("formula")]
        return [name for name in measured if name not in self.outputs]


def incomplete(ledger: Ledger, campaign: str, trials: Sequence[Trial | TrialSummary]) -> list[Incomplete]:
    """Trials with a part of a result of their present attempt, which may still be completed, by number.

    Parts of an attempt that ended otherwise do not count, nor do those of a trial that was given up.
    """
    out = {trial.id: trial for trial in trials if trial.state in OUT}
    last = {part.trial: part for part in ledger.parts(campaign) if part.trial in out} if out else {}
    return [
        Incomplete(name, part.id, part.ran or trial.design, part.outputs, part.sd)
        for name, trial in out.items()
        if (part := last.get(name)) and part.attempt == ledger.trial(name).attempt
    ]


def incomplete_data(
    ledger: Ledger, campaign: CampaignRecord, trials: Sequence[Trial | TrialSummary]
) -> list[dict[str, Any]]:
    """The same as JSON data: trial, known outputs, their standard deviations and missing outputs, by number."""
    return [
        {
            "trial": each.trial,
            "outputs": dict(each.outputs),
            "sd": dict(each.sd),
            "missing": each.missing(campaign),
        }
        for each in incomplete(ledger, campaign.name, trials)
    ]
