"""Results of levels as data of a model, and the trials of each."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.storage.records import Trial, TrialSummary

if TYPE_CHECKING:
    from fieldcraft.models.observations import LevelResults

T = TypeVar("T", Trial, TrialSummary, Trial | TrialSummary)


def of_target(trials: Sequence[T]) -> list[T]:
    """Trials that run the simulator as it stands, by number."""
    return [trial for trial in trials if trial.level is None]


def lower_results(
    campaign: Campaign, trials: Sequence[Trial | TrialSummary], names: Sequence[str]
) -> "tuple[LevelResults, ...]":
    """Results of each level that has any, the cheapest first.

    Args:
        campaign: The campaign.
        trials: Its trials; those without outputs are left out, and designs are as they were really run.
        names: Outputs in the order of the model's: objectives, then constraints.
    """
    from fieldcraft.models.observations import LevelResults

    by_level = dict[int, list[Trial | TrialSummary]]()
    for trial in trials:
        if trial.level is not None and trial.outputs is not None:
            by_level.setdefault(trial.level, []).append(trial)
    return tuple(
        LevelResults(
            level=level,
            cost=campaign.level(level).cost,
            X=campaign.space.encode([trial.actual for trial in done]),
            Y=np.array([[_outputs(trial)[name] for name in names] for trial in done], dtype=np.float64),
        )
        for level, done in sorted(by_level.items())
    )


def _outputs(trial: Trial | TrialSummary) -> Mapping[str, float]:
    return trial.outputs or {}
