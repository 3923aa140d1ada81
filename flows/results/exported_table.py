"""A table that ``fieldcraft export`` wrote, as one that a person would hand in."""

from collections.abc import Mapping
from dataclasses import dataclass

from fieldcraft.flows.files.field_files import COLUMN
from fieldcraft.flows.files.tables import Row, Table
from fieldcraft.flows.text import printable
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.storage.records import TrialState

_KEPT = ("trial", "note", COLUMN)


@dataclass(frozen=True)
class Plain:
    """The table under the campaign's own names.

    Args:
        table: Its lines that hold a result.
        left: Reason why a line was left out, by its trial.
    """

    table: Table
    left: Mapping[str, str]


def plain(campaign: Campaign, table: Table) -> Plain:
    """The table itself, or, if ``fieldcraft export`` wrote it, with the names of variables and outputs.

    ``design.NAME``, replaced by ``ran.NAME`` where that has a value, becomes ``NAME``; ``output.NAME`` becomes ``NAME``
    and ``sd.NAME`` ``NAME sd``. Outputs that are computed from others are left to be computed again. Trials without a
    result that counts are left out, and so are coarser runs.
    """
    names, outputs = campaign.problem.space.names, [output.name for output in campaign.problem.measured]
    design = {printable(f"design.{name}"): name for name in names}
    if not {"trial", "state"} <= table.units.keys() or table.units.keys().isdisjoint(design):
        return Plain(table, {})
    ran = {printable(f"ran.{name}"): name for name in names}
    read = {printable(f"output.{name}"): name for name in outputs}
    deviations = {printable(f"sd.{name}"): f"{name} sd" for name in outputs}
    own = {name: name for name in (*names, *outputs, *deviations.values(), *_KEPT)}  # also what a person mapped
    known = {column: name for column, name in (own | design | read | deviations).items() if column in table.units}
    rows, left = [], {}
    for row in table.rows:
        if reason := _no_result(row, [*read, *outputs]):
            left[row.cells["trial"]] = reason
            continue
        cells = {name: row.cells[column] for column, name in known.items()}
        cells |= {name: cell for column, name in ran.items() if (cell := row.cells.get(column))}
        rows.append(Row(row.place, cells))
    return Plain(Table(table.file, {name: table.units[column] for column, name in known.items()}, tuple(rows)), left)


def _no_result(row: Row, outputs: list[str]) -> str | None:
    if row.cells.get("level"):
        return f"a coarser run ({row.cells['level']})"
    if row.cells.get("corrected") == "retracted":
        return "its result was retracted"
    if row.cells["state"] != TrialState.COMPLETED:
        return f"it is {row.cells['state']}"
    if not row.cells.get(COLUMN) and not any(row.cells.get(column) for column in outputs):
        return "no result counts"
    return None
