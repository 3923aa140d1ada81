"""``fieldcraft import``: measurements from before the campaign, checked as a whole and imported all or none."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import Row, Table, level, number, read_bytes, table_of
from fieldcraft.flows.results.adopt import adopt
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.registry import suggestion
from fieldcraft.flows.text import quoted, shown
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.campaign_file import read
from fieldcraft.flows.wiring.create import created
from fieldcraft.physics.space import SpaceError
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known


@dataclass(frozen=True)
class Imported:
    """Result of an import.

    Args:
        campaign: Name of the campaign.
        trials: The trials of the file, by number.
        anew: True if they were recorded now; False if the same file had been imported before.
    """

    campaign: str
    trials: tuple[str, ...]
    anew: bool


def import_table(settings: Settings, file: Path, data: Path, renamed: Mapping[str, str], by: str) -> Imported:
    """Import the lines of a table as completed trials; the campaign is created if it does not exist.

    Args:
        settings: Settings of the stores.
        file: Campaign file.
        data: CSV with a column for each variable and each output.
        renamed: Columns that stand for variables or outputs of other names.
        by: Person who imports.

    Raises:
        InputError: a column is missing or in another unit, a value is missing, not finite or outside the space, or
            the campaign has ended. Names line and column; nothing was imported.
        storage.ledger.LeaseHeld: a pass is under way, which would propose without these measurements.
    """
    campaign = read(file, settings)
    _require_names(campaign, renamed)
    raw = read_bytes(data)  # once: what is adopted is what the digest is of
    known = _known(campaign, table_of(data, raw, renamed))
    digest = _digest(raw, renamed)
    ledger = open_ledger(settings.ledger, create=True)
    ended = created(ledger, campaign, file)
    imported = [trial for trial in ledger.trials(campaign.name) if trial.origin.kind == "imported"]
    before = [trial for trial in imported if trial.origin.data_digest == digest]
    if before:
        return Imported(campaign.name, tuple(trial.id for trial in before), False)
    trials = adopt(ledger, campaign.name, ended, known, digest, f"import of {data.name}", by)
    return Imported(campaign.name, trials, True)


def _require_names(campaign: Campaign, renamed: Mapping[str, str]) -> None:
    """Accept the renamed columns if each stands for a variable or an output."""
    outputs = [output.name for output in campaign.problem.outputs]
    known = [*campaign.problem.space.names, *outputs, *(f"{name} sd" for name in outputs)]
    for column, name in renamed.items():
        if name not in known:
            raise InputError(
                f"--map {shown(column)}={shown(name)}: {quoted(name)} is no variable or output of {campaign.name}."
                f"{suggestion(name, known)} Known: {', '.join(known)}. Nothing was imported."
            )


def _digest(raw: bytes, renamed: Mapping[str, str]) -> str:
    """SHA-256 of a table and of the names given to its columns."""
    understood = json.dumps(dict(renamed), sort_keys=True).encode() if renamed else b""
    return hashlib.sha256(raw + understood).hexdigest()


def _known(campaign: Campaign, table: Table) -> list[Known]:
    """The measurements of a table, one a line."""
    units = campaign.problem.space.units
    units |= {output.name: output.unit for output in campaign.problem.outputs}
    for name in units:
        if name not in table.units:
            hint = suggestion(name, list(table.units))
            raise InputError(
                f"{table.file}: no column {name!r}.{hint} Columns: {', '.join(table.units)}. '--map COLUMN={name}' "
                "names another; nothing was imported."
            )
    table.require_units({**units, **{f"{output.name} sd": output.unit for output in campaign.problem.outputs}})
    if not table.rows:
        raise InputError(f"{table.file}: holds no line below the header. Nothing was imported.")
    return [_measured(campaign, table, row, set(units)) for row in table.rows]


def _measured(campaign: Campaign, table: Table, row: Row, required: set[str]) -> Known:
    for name in required:
        if not row.cells[name]:
            raise InputError(f"{row.place}: {name} is empty. Fill it in or remove the line; nothing was imported.")
    design = {v.name: level(v, row.cells[v.name], f"{row.place}: {v.name}") for v in campaign.problem.space.variables}
    try:
        campaign.space.check(design)
    except SpaceError as error:
        raise InputError(f"{row.place}: {error} Nothing was imported.") from None
    outputs = {o.name: number(row.cells[o.name], f"{row.place}: {o.name}") for o in campaign.problem.outputs}
    sd = {
        name: number(cell, f"{row.place}: {name} sd") for name in outputs if (cell := row.cells.get(f"{name} sd", ""))
    }
    if bad := next((name for name, value in sd.items() if value < 0), None):
        raise InputError(f"{row.place}: {bad} sd is {sd[bad]:g}. Give it as a positive number; nothing was imported.")
    rest = {n: cell for n, cell in row.cells.items() if cell and n not in required and n.removesuffix(" sd") not in sd}
    details = {"place": f"{table.file.name}{row.place.removeprefix(str(table.file))}", "sd": sd, "columns": rest}
    return Known(design=design, outputs=outputs, details={name: value for name, value in details.items() if value})
