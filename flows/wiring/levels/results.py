"""Results of levels as data of a model, and the trials of each."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.physics.snapshots import read_elsewhere, snapshots_of
from fieldcraft.physics.problem import Solve
from fieldcraft.storage.records import Trial, TrialSummary

if TYPE_CHECKING:
    from fieldcraft.models.observations import LevelResults
    from fieldcraft.models.snapshots import Snapshots

T = TypeVar("T", Trial, TrialSummary, Trial | TrialSummary)


def of_target(trials: Sequence[T]) -> list[T]:
    """Trials that run the simulator as it stands, by number."""
    return [trial for trial in trials if trial.level is None]


def lower_results(
    campaign: Campaign,
    trials: Sequence[Trial | TrialSummary],
    names: Sequence[str],
    target: "Snapshots | None",
    network: Solve | None,
) -> "tuple[LevelResults, ...]":
    """Results of each level that has any, the cheapest first.

    Args:
        campaign: The campaign.
        trials: Its trials; those without outputs are left out, and designs are as they were really run.
        names: Outputs in the order of the model's: objectives, then constraints.
        target: Fields of the target, on whose mesh those of the levels are read; None where they teach nothing.
        network: Trained network of the campaign's emulator; None where the emulator is the problem's own.
    """
    from fieldcraft.models.observations import LevelResults

    by_level = dict[int, list[Trial | TrialSummary]]()
    for trial in trials:
        if trial.level is not None and trial.outputs is not None:
            by_level.setdefault(trial.level, []).append(trial)
    found = list[LevelResults]()
    for level, done in sorted(by_level.items()):
        X = campaign.space.encode([trial.actual for trial in done])
        Y = np.array([[_outputs(trial)[name] for name in names] for trial in done], dtype=np.float64)
        own = None if target is None else snapshots_of(campaign, [field_of(trial) for trial in done], X, Y, network)
        read = None if own is None or target is None else read_elsewhere(campaign.problem, own, target, X)
        found.append(LevelResults(level=level, cost=campaign.level(level).cost, X=X, Y=Y, read=read))
    return tuple(found)


def field_of(trial: Trial | TrialSummary) -> str | None:
    """Digest of a trial's stored field; None if it left none."""
    if isinstance(trial, TrialSummary):
        return trial.field
    return None if trial.field is None else trial.field.digest


def _outputs(trial: Trial | TrialSummary) -> Mapping[str, float]:
    return trial.outputs or {}
