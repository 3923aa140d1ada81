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
    told = {result.trial for result in ledger.result_summaries(campaign) if result.verdict == "partial"}
    found = list[Incomplete]()
    for trial in (each for each in trials if each.state in OUT and each.id in told):
        last = [each for each in ledger.results(trial.id) if each.verdict == "partial"][-1]
        if last.attempt == ledger.trial(trial.id).attempt:
            found.append(Incomplete(trial.id, last.id, last.ran or trial.design, last.outputs, last.sd))
    return found


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
