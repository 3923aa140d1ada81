"""``fieldcraft import``: measurements from before the campaign, checked as a whole and imported all or none."""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.errors import InputError, at
from fieldcraft.flows.files.field_files import COLUMN, named_field, read_field
from fieldcraft.flows.files.field_outputs import outputs_of_file
from fieldcraft.flows.files.tables import Row, Table, level, number, read_bytes, table_of
from fieldcraft.flows.results.adopt import adopt
from fieldcraft.flows.results.as_run import field_labels
from fieldcraft.flows.results.exported_table import plain
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.registry import suggestion
from fieldcraft.flows.text import quoted, shown
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.campaign_file import read
from fieldcraft.flows.wiring.create import created
from fieldcraft.flows.wiring.fit.derived import completed, require_measured_columns
from fieldcraft.physics.space import SpaceError
from fieldcraft.storage.fields import FieldStore, content_digest, fields_at
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known, Trial, digest_of


@dataclass(frozen=True)
class Imported:
    """Result of an import.

    Args:
        campaign: Name of the campaign.
        trials: The trials of the file, by number.
        anew: True if they were recorded now; False if the same file had been imported before.
        left: Reason why a trial of an exported table was left out, by its name there.
        repeated: The earlier trial with the same design and results, by the trial.
    """

    campaign: str
    trials: tuple[str, ...]
    anew: bool
    left: Mapping[str, str]
    repeated: Mapping[str, str]


@dataclass(frozen=True)
class _Line:
    """One checked line of a table.

    Args:
        place: File and line, for errors.
        known: Its measurement, without the field.
        file: File of its field; None without one.
        digest: Digest of the field's content; empty without one.
    """

    place: str
    known: Known
    file: Path | None = None
    digest: str = ""


def import_table(settings: Settings, file: Path, data: Path, renamed: Mapping[str, str], by: str) -> Imported:
    """Import the lines of a table as completed trials; the campaign is created if it does not exist.

    Every line is checked before anything is written. Of the fields, one at a time is in memory.

    Args:
        settings: Settings of the stores.
        file: Campaign file.
        data: CSV with a column for each variable and each output, or as ``fieldcraft export`` wrote it. A column
            ``field`` names a line's field by a path relative to the table, and then the outputs may be left out.
        renamed: Columns that stand for variables, outputs or ``field`` and have other names.
        by: Person who imports.

    Raises:
        InputError: a column is missing or in another unit, a value is missing, not finite or outside the space, a
            field is none of the problem's or says other outputs than its line, or the campaign has ended. Names line
            and column; nothing was imported.
        storage.fields.FieldError: the disk refused a field. Nothing was imported; the fields before it are orphans,
            which ``fieldcraft repair`` removes.
        storage.ledger.LeaseHeld: a pass is under way, which would propose without these measurements.
    """
    campaign = read(file, settings)
    _require_names(campaign, renamed)
    raw = read_bytes(data)  # once: what is adopted is what the digest is of
    read_as = plain(campaign, table_of(data, raw, renamed))
    if read_as.left and not read_as.table.rows:
        raise InputError(f"{data}: no trial in it has a result that counts. Nothing was imported.")
    lines = _lines(campaign, read_as.table)
    digest = _digest(raw, renamed, [line.digest for line in lines])
    ledger = open_ledger(settings.ledger, create=True)
    ended = created(ledger, campaign, file)
    imported = [trial for trial in ledger.trials(campaign.name) if trial.origin.kind == "imported"]
    before = [trial for trial in imported if trial.origin.data_digest == digest]
    if before:
        return Imported(campaign.name, tuple(trial.id for trial in before), False, read_as.left, {})
    fields = fields_at(settings.fields)
    known = (_stored(line, fields) for line in lines)
    trials = adopt(ledger, campaign.name, ended, known, digest, f"import of {data.name}", by)
    return Imported(campaign.name, trials, True, read_as.left, _repeated(ledger.trials(campaign.name), set(trials)))


def _repeated(trials: Sequence[Trial], new: Set[str]) -> dict[str, str]:
    """Earlier trials that count and have the design and results of a new one, by the new one."""
    first: dict[str, str] = {}
    found = {}
    for trial in (trial for trial in trials if trial.counts):
        earlier = first.setdefault(digest_of([trial.actual, trial.outputs]), trial.id)
        if trial.id in new and earlier != trial.id:
            found[trial.id] = earlier
    return found


def _require_names(campaign: Campaign, renamed: Mapping[str, str]) -> None:
    """Accept the renamed columns if each stands for a variable, an output or the fields."""
    outputs = [output.name for output in campaign.problem.measured]
    known = [*campaign.problem.space.names, *outputs, *(f"{name} sd" for name in outputs), COLUMN]
    for column, name in renamed.items():
        if name not in known:
            raise InputError(
                f"--map {shown(column)}={shown(name)}: {quoted(name)} is no variable or output of {campaign.name}."
                f"{suggestion(name, known)} Known: {', '.join(known)}. Nothing was imported."
            )


def _digest(raw: bytes, renamed: Mapping[str, str], fields: Sequence[str]) -> str:
    """SHA-256 of a table, of the names given to its columns and of the digests of its fields."""
    understood = json.dumps(dict(renamed), sort_keys=True).encode() if renamed else b""
    return hashlib.sha256(raw + understood + (json.dumps(fields).encode() if any(fields) else b"")).hexdigest()


def _lines(campaign: Campaign, table: Table) -> list[_Line]:
    """The lines of a table, checked with their fields."""
    variables = campaign.problem.space.units
    outputs = {output.name: output.unit for output in campaign.problem.measured}
    with_fields = COLUMN in table.units and COLUMN not in variables | outputs
    for name in variables if with_fields else variables | outputs:
        if name not in table.units:
            hint = suggestion(name, list(table.units))
            raise InputError(
                f"{table.file}: no column {name!r}.{hint} Columns: {', '.join(table.units)}. '--map COLUMN={name}' "
                "names another; nothing was imported."
            )
    require_measured_columns(campaign, table.units, table.file)
    table.require_units({**variables, **outputs, **{f"{name} sd": unit for name, unit in outputs.items()}})
    if not table.rows:
        raise InputError(f"{table.file}: holds no line below the header. Nothing was imported.")
    return [_checked(campaign, table, row, row.cells[COLUMN] if with_fields else "") for row in table.rows]


def _checked(campaign: Campaign, table: Table, row: Row, named: str) -> _Line:
    """A line, its outputs read from the field that it names, where it names one."""
    if {"trial", "state"} <= row.cells.keys() and row.cells.get("level"):  # an exported table whose columns were mapped
        raise InputError(
            f"{row.place}: level is {quoted(row.cells['level'])}: a coarser run, which is no result. Remove the line; "
            "nothing was imported."
        )
    variables = campaign.problem.space.variables
    names = [output.name for output in campaign.problem.measured]
    folds = campaign.space.folds
    needless = set(folds.conditional) - set(folds.existing(row.cells))
    for name in [variable.name for variable in variables] + ([] if named else names):
        if not row.cells.get(name) and name not in needless:
            remedy = f"Fill it in{', name a field' if name in names else ''} or remove the line"
            raise InputError(f"{row.place}: {name} is empty. {remedy}; nothing was imported.")
    design = folds.resting() | {
        v.name: level(v, row.cells[v.name], f"{row.place}: {v.name}")
        for v in variables
        if v.name not in needless or row.cells.get(v.name)
    }
    try:
        campaign.space.check(design)
    except SpaceError as error:
        raise InputError(f"{row.place}: {error} Nothing was imported.") from None
    outputs = {name: number(cell, f"{row.place}: {name}") for name in names if (cell := row.cells.get(name))}
    details = _details(table, row, names, {*design, *names})
    if not named:
        whole = completed(campaign, outputs, design, row.place)
        return _Line(row.place, Known(design=design, outputs=whole, details=details))
    file = named_field(table.file, named, row.place, table.file.parent)
    with at(row.place):
        outputs, digest = outputs_of_file(campaign.problem, design, file, outputs)
    whole = completed(campaign, outputs, design, row.place)
    return _Line(row.place, Known(design=design, outputs=whole, details=details), file, digest)


def _details(table: Table, row: Row, outputs: Sequence[str], known: Set[str]) -> dict[str, Any]:
    """Place of a line, standard deviations of its outputs, and the cells of columns that are not known."""
    sd = {
        name: number(cell, f"{row.place}: {name} sd") for name in outputs if (cell := row.cells.get(f"{name} sd", ""))
    }
    if bad := next((name for name, value in sd.items() if value < 0), None):
        raise InputError(f"{row.place}: {bad} sd is {sd[bad]:g}. Give it as a positive number; nothing was imported.")
    rest = {n: cell for n, cell in row.cells.items() if cell and n not in known and n.removesuffix(" sd") not in sd}
    details = {"place": f"{table.file.name}{row.place.removeprefix(str(table.file))}", "sd": sd, "columns": rest}
    return {name: value for name, value in details.items() if value}


def _stored(line: _Line, fields: FieldStore) -> Known:
    """The measurement of a checked line, its field stored.

    Raises:
        InputError: the file has changed since it was checked.
    """
    if line.file is None:
        return line.known
    dataset = read_field(line.file)
    if content_digest(dataset) != line.digest:
        raise InputError(f"{line.place}: {line.file} changed meanwhile. Nothing was imported: do it again.")
    return line.known.model_copy(update={"field": fields.write("import", dataset, field_labels(line.known.design))})
