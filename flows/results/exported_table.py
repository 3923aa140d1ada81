"""A table that ``fieldcraft export`` wrote, as one that a person would hand in."""

from collections.abc import Mapping
from dataclasses import dataclass

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.exported import ABOUT, FRONT, LEVEL, no_result
from fieldcraft.flows.files.field_files import COLUMN
from fieldcraft.flows.files.tables import Row, Table
from fieldcraft.flows.text import printable, quoted
from fieldcraft.flows.wiring.campaign import Campaign


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
    result that counts are left out, and so are coarser runs. Other columns stay.

    Raises:
        InputError: two columns stand for one name.
    """
    names, measured = campaign.problem.space.names, {output.name for output in campaign.problem.measured}
    design = {printable(f"design.{name}"): name for name in names}
    if not {"trial", "state"} <= table.units.keys() or table.units.keys().isdisjoint(design):
        return Plain(table, {})
    ran = {printable(f"ran.{name}"): name for name in names}
    read = {printable(f"output.{output.name}"): output.name for output in campaign.problem.outputs}
    deviations = {printable(f"sd.{name}"): f"{name} sd" for name in read.values()}
    computed = {column for column, name in (read | deviations).items() if name.removesuffix(" sd") not in measured}
    dropped = {*ABOUT[1:], LEVEL, FRONT, *ran, *computed}
    known = {column: column for column in table.units if column not in dropped}
    known |= {column: name for column, name in (design | read | deviations).items() if column in known}
    if twice := next((name for column, name in known.items() if column != name and name in known), None):
        raise InputError(f"{table.file}: two columns stand for {quoted(twice)}. Remove one; nothing was imported.")
    told = [column for column, name in known.items() if name in measured or name == COLUMN]
    rows, left = [], {}
    for row in table.rows:
        reason = no_result(row.cells) or (None if any(row.cells[column] for column in told) else "no result counts")
        if reason:
            left[row.cells["trial"]] = reason
            continue
        cells = {name: row.cells[column] for column, name in known.items()}
        cells |= {name: cell for column, name in ran.items() if (cell := row.cells.get(column))}
        rows.append(Row(row.place, cells))
    return Plain(Table(table.file, {name: table.units[column] for column, name in known.items()}, tuple(rows)), left)
