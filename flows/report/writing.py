"""``fieldcraft report``: one campaign as one page, written to a file and attached to the campaign's MLflow run."""

import os
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.report.aims import feasibility_section, front_section
from fieldcraft.flows.report.certificates import certificate_section, regret_section
from fieldcraft.flows.report.markup import page
from fieldcraft.flows.report.material import gather
from fieldcraft.flows.report.records import provenance_section, queue_section
from fieldcraft.flows.report.sections import (
    best_section,
    heading,
    residual_section,
    surrogate_section,
    time_section,
    trials_section,
    trials_table,
)
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.views.export import require_place, tracker
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import CampaignRecord
from fieldcraft.storage.trackers.campaigns import TrackingError


@dataclass(frozen=True)
class Written:
    """A page that was written.

    Args:
        file: Path of the file.
        size: Its size in bytes.
        run: The MLflow run that it is attached to, or None.
        problem: Reason why it is attached to none, or None.
    """

    file: Path
    size: int
    run: str | None
    problem: str | None


def write_report(settings: Settings, ledger: Ledger, campaign: CampaignRecord, file: Path) -> Written:
    """Write a campaign's page to ``file`` and, where the campaign is shown in MLflow, attach it there.

    Raises:
        InputError: the file is no .html file, or its folder is not there.
    """
    require_page(file)
    material = gather(settings, ledger, campaign)
    text = page(
        f"{campaign.name}: campaign report",
        heading(material),
        front_section(material) or best_section(material),
        trials_section(material),
        feasibility_section(material),
        surrogate_section(material),
        residual_section(material),
        certificate_section(material),
        regret_section(material),
        queue_section(material),
        time_section(material),
        trials_table(material),
        provenance_section(settings, material),
    )
    size = write_page(file, text)
    run, problem = _attached(settings, ledger, campaign, file)
    return Written(file, size, run, problem)


def write_page(file: Path, text: str) -> int:
    """Write a page atomically. Returns its size in bytes.

    Raises:
        InputError: the file is no .html file, or its folder is not there.
    """
    require_page(file)
    draft, content = file.with_name(f".{file.name}.{os.getpid()}"), text.encode("utf-8")
    draft.write_bytes(content)
    os.replace(draft, file)
    return len(content)


def require_page(file: Path) -> None:
    """Accept the path of a page that is to be written.

    Raises:
        InputError: it is no .html file, or its folder is not there.
    """
    require_place(file)
    if file.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{file}: a page cannot be written as {file.suffix!r}. Name an .html file.")


def _attached(
    settings: Settings, ledger: Ledger, campaign: CampaignRecord, file: Path
) -> tuple[str | None, str | None]:
    """The MLflow run that the page is now attached to, or the reason why it is attached to none."""
    if settings.mlflow == "off":
        return None, "FIELDCRAFT_MLFLOW is off"
    try:
        run = tracker(settings).attach(ledger, campaign.name, file, "report.html")
    except TrackingError as error:
        return None, str(error)
    if run is None and ledger.tracked(campaign.name).get("campaign"):
        return None, "the campaign's run was deleted there: restore it in MLflow, then run this again"
    return run, None if run else "the campaign is not shown there; run `fieldcraft export mlflow`, then this again"
