"""A study in MLflow: one experiment, one run a cell, with the tags, parameters and curves of its compare view.

Trials and surrogates of the cells stay in their ledgers: a study has tens of thousands of them, which would make MLflow
slow. ``fieldcraft export mlflow --home OUT/cells/NAME`` shows all of one cell.
"""

from collections.abc import Mapping
from typing import Any

from fieldcraft.flows.settings import Settings
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import Cell, StudySpec, cells_of
from fieldcraft.flows.studies.scoring.results import with_regrets
from fieldcraft.flows.studies.scoring.violation import spreads_of, with_violations
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import CampaignRecord
from fieldcraft.storage.text import without_password
from fieldcraft.storage.trackers.campaigns import TrackingError
from fieldcraft.storage.trackers.studies import CellRun, show_cell


class Showing:
    """Export of cells to MLflow as they end; if MLflow does not answer, a later run shows them."""

    def __init__(self, study: StudySpec, folder: StudyFolder, settings: Settings) -> None:
        self.study, self.folder, self.settings = study, folder, settings
        self.problem: str | None = "FIELDCRAFT_MLFLOW is off" if settings.mlflow == "off" else None

    @property
    def where(self) -> dict[str, str]:
        """The store's URI without its password, and the experiment."""
        return {
            "uri": without_password(self.settings.mlflow),
            "experiment": self.study.experiment or self.study.name,
        }

    def show(self, cell: Cell) -> None:
        """Show a cell that ended, unless it is shown already, its ledger is elsewhere, or MLflow did not answer."""
        found = self.folder.result(cell)
        if self.problem is not None or not found or "earlier" in found or self.is_shown(cell):
            return
        ledger = open_ledger(self.folder.home(cell) / "ledger.sqlite")
        try:
            run = show_cell(self.settings.mlflow, self._run(cell, found, ledger.campaign(cell.name)))
        except TrackingError as error:
            self.problem = str(error)
            return
        self.folder.show(cell, self.where, run)

    def catch_up(self) -> str | None:
        """Show all cells that ended and are not shown. Returns MLflow's problem, or None."""
        for cell in cells_of(self.study):
            self.show(cell)
        return self.problem

    def is_shown(self, cell: Cell) -> bool:
        """True if a cell is recorded as shown in this store and experiment."""
        return self.where.items() <= self.folder.shown(cell).items()

    def _run(self, cell: Cell, found: dict[str, Any], campaign: CampaignRecord) -> CellRun:
        spent = self.folder.spent(cell)
        proposed = sum(line["proposed"] for line in spent)
        last = {"cpu_seconds": sum(line["cpu"] for line in spent)}
        if proposed:
            last["cpu_seconds_per_proposal"] = sum(line["proposing"] for line in spent) / proposed
        return CellRun(
            experiment=self.where["experiment"],
            campaign=campaign,
            curves=_curves(found),
            last=last,
            ended=(self.folder.home(cell) / "result.json").stat().st_mtime,
            about={
                "study": self.study.name,
                "problem": cell.problem.name,
                "algorithm": cell.algorithm.name,
                "seed": str(cell.seed),
            },
        )


def _curves(found: dict[str, Any]) -> Mapping[str, list[float | None]]:
    """Results after each trial, and the regret where the optimum is known without the rest of the study.

    For a problem with constraints also the other metrics after each trial, where their spreads are known in the same
    way.
    """
    results = [trial["reading"] for trial in found["trials"]]
    if found["optimum"] is None:
        return {"reading": results}
    cell = with_regrets(found, found["optimum"])
    curves = {"reading": results, "regret": cell["regret"], "regret.visited": cell["visited"]}
    if not found.get("spreads"):
        return curves
    spreads = spreads_of([found])
    assert spreads is not None  # they are stated
    return {**curves, **with_violations(found, found["optimum"], spreads)["paths"]}
