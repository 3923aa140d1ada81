"""One cell of a study as one run in MLflow: parameters, curves and tags, written at once when the cell has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldcraft.storage.records import CampaignRecord
from fieldcraft.storage.trackers.errors import tracking_errors
from fieldcraft.storage.trackers.mlflow_names import flatten
from fieldcraft.storage.trackers.runs import CampaignRuns, client_of, require_mlflow


@dataclass(frozen=True)
class CellRun:
    """Contents of the run that shows a cell.

    Args:
        experiment: Name of the experiment, shared by the cells of a study.
        campaign: The cell, as its ledger has it; its specification becomes the run's parameters.
        curves: Metrics by number of trials, from 1; a place that is None is left out.
        last: Metrics of the whole cell.
        about: Tags.
        ended: Time at which it ended, in seconds since the epoch.
    """

    experiment: str
    campaign: CampaignRecord
    curves: Mapping[str, Sequence[float | None]]
    last: Mapping[str, float]
    about: Mapping[str, str]
    ended: float


def show_cell(uri: str, cell: CellRun) -> str | None:
    """Make a cell's run, or complete one that a kill left; returns its id, None where a person deleted it.

    Raises:
        storage.trackers.campaigns.TrackingError: MLflow is absent, broken or out of reach; to be repeated.
    """
    campaign = cell.campaign
    require_mlflow()
    with tracking_errors(uri):
        shown = CampaignRuns(client_of(uri), campaign, uri, cell.experiment)
        run = shown.run("campaign", campaign.name, campaign.created)
        points = [
            (name, value, step)
            for name, values in cell.curves.items()
            for step, value in enumerate(values, 1)
            if value is not None
        ]
        final = [(name, value, 1) for name, value in cell.last.items()]
        shown.log(run, [*points, *final], flatten(campaign.spec), cell.about, at=cell.ended)
        shown.log(run, about={"fieldcraft.finished": campaign.finished, "fieldcraft.digest": campaign.digest})
        shown.end(run, "FINISHED", cell.ended)
    return run
