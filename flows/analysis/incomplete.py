"""Trials of which some outputs are measured and others are still to come.

Reads records alone: no torch, no solver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledger.standing import standing_parts
from fieldcraft.storage.records import OUT, CampaignRecord, Level, Result, Trial, TrialSummary


@dataclass(frozen=True)
class KnownOutput:
    """An output that a part of a result gave.

    Args:
        value: The value, in the output's unit.
        sd: Its standard deviation, in the same unit; None where none is stated.
        by: Who recorded that value.
        created: When, in seconds since the epoch.
    """

    value: float
    sd: float | None
    by: str
    created: float


def known_outputs(results: Sequence[Result], attempt: int) -> dict[str, KnownOutput]:
    """Outputs that the parts of an attempt gave, from a trial's results, oldest first; the latest value counts.

    The last part has the outputs of all. One that it lacks was hidden by a part of an earlier version, and is asked for
    again, as is what was withdrawn.
    """
    known: dict[str, KnownOutput] = {}
    parts = standing_parts(results, attempt)
    for part in parts:
        for name, value in part.outputs.items():
            said = known.get(name)
            if said is None or said.value != value:
                known[name] = KnownOutput(value, part.sd.get(name), part.by, part.created)
            elif name in part.sd:
                known[name] = replace(said, sd=part.sd[name])
    return {name: output for name, output in known.items() if name in parts[-1].outputs}


@dataclass(frozen=True)
class Incomplete:
    """Known outputs of a trial that is out.

    Args:
        trial: Id of the trial.
        result: Number of its latest part, which has the outputs of all parts of the attempt.
        design: The design, as it was run where the part says so.
        outputs: The outputs that are known, in their units.
        sd: Standard deviations that the parts state, in the same units.
        known: The known outputs with who recorded each; empty where only a model asks.
    """

    trial: str
    result: int
    design: Mapping[str, Level]
    outputs: Mapping[str, float]
    sd: Mapping[str, float]
    known: Mapping[str, KnownOutput] = field(default_factory=dict)

    def missing(self, campaign: CampaignRecord) -> list[str]:
        """Outputs that are still to be measured."""
        measured = [each["name"] for each in campaign.environment["outputs"] if not each.get("formula")]
        return [name for name in measured if name not in self.outputs]


def incomplete(ledger: Ledger, campaign: str, trials: Sequence[Trial | TrialSummary]) -> list[Incomplete]:
    """Trials with a part of a result of their present attempt, which may still be completed, by number.

    Parts of an attempt that ended otherwise do not count, nor do those of a trial that was given up.
    """
    out = {trial.id: trial for trial in trials if trial.state in OUT}
    parts: dict[str, list[Result]] = {}
    for part in ledger.parts(campaign) if out else ():
        parts.setdefault(part.trial, []).append(part)
    return [
        Incomplete(name, last.id, last.ran or trial.design, last.outputs, last.sd, known_outputs(own, last.attempt))
        for name, trial in out.items()
        if (own := parts.get(name)) and not (last := own[-1]).withdraws and last.attempt == ledger.trial(name).attempt
    ]


def incomplete_data(
    ledger: Ledger, campaign: CampaignRecord, trials: Sequence[Trial | TrialSummary]
) -> list[dict[str, Any]]:
    """The same as JSON data: trial, known outputs, their deviations, who recorded each, missing outputs; by number."""
    return [
        {
            "trial": each.trial,
            "outputs": dict(each.outputs),
            "sd": dict(each.sd),
            "known": {name: {"by": one.by, "created": one.created} for name, one in each.known.items()},
            "missing": each.missing(campaign),
        }
        for each in incomplete(ledger, campaign.name, trials)
    ]
