"""Recorded results by their designs, of a campaign or of a table that ``fieldcraft export`` wrote."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fieldcraft.flows.analysis.feasibility import is_infeasible
from fieldcraft.flows.analysis.learnt import standing
from fieldcraft.flows.analysis.noise import by_people
from fieldcraft.flows.errors import InputError, at
from fieldcraft.flows.files.exported import LEVEL, no_result
from fieldcraft.flows.files.field_files import COLUMN, named_field
from fieldcraft.flows.files.tables import Row, finite, read_table
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.spec.campaign_file import Dispatch
from fieldcraft.flows.text import printable, quoted
from fieldcraft.physics.space import Design
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import FieldRef, Trial

_Cell = TypeVar("_Cell")
_REL = 1e-9  # numbers closer than this, relative to their size, are the same


@dataclass(frozen=True)
class KnownResult:
    """A recorded result of a design.

    Args:
        name: Its source: a trial, or a row of a table.
        design: The design that was run; in a table its numbers are text, too.
        outputs: The measured outputs; empty where the design was infeasible.
        units: Units of variables and outputs, as far as they are recorded.
        stored: The fields in the store from which the outputs were evaluated; None where there are none.
        file: The file of the fields that a row names; None where it names none. The outputs may then be empty.
        infeasible: True if there is no result because the design itself is infeasible.
    """

    name: str
    design: Design
    outputs: Mapping[str, float]
    units: Mapping[str, str] = field(default_factory=dict)
    stored: FieldRef | None = None
    file: Path | None = None
    infeasible: bool = False

    @property
    def said(self) -> str:
        """The design as text."""
        return ", ".join(f"{name}={value}" for name, value in self.design.items())


def same(recorded: Design, design: Design) -> bool:
    """True if a recorded design equals this one: numbers within 1e-9 of their size, texts exactly, as printed."""
    return recorded.keys() == design.keys() and all(
        recorded[name] in (value, printable(value))
        if isinstance(value, str)
        else math.isclose(_number(recorded[name]), value, rel_tol=_REL)
        for name, value in design.items()
    )


def _number(recorded: float | str) -> float:
    try:
        return float(recorded)
    except ValueError:
        return math.nan


def nearest(records: Sequence[KnownResult], design: Design) -> KnownResult | None:
    """The record whose design is nearest; None without records.

    Each number is scaled by its range among the records. Texts that differ count as one such range apart.
    """
    alike = [record for record in records if record.design.keys() == design.keys()]
    columns = {
        name: [_number(record.design[name]) for record in alike]
        for name, value in design.items()
        if not isinstance(value, str)
    }
    spans = {name: max(column) - min(column) or 1.0 for name, column in columns.items() if column}

    def distance(record: KnownResult) -> float:
        return sum(
            float(record.design[name] != value)
            if isinstance(value, str)
            else ((_number(record.design[name]) - value) / spans[name]) ** 2
            for name, value in design.items()
        )

    return min(alike, key=distance, default=None)


def campaign_records(settings: Settings, name: str) -> tuple[KnownResult, ...]:
    """The results of a campaign of the ledger, and its infeasible designs, by number.

    A record has fields only where its outputs were evaluated from them, by a pass or an import; results that a person
    recorded count as recorded.

    Raises:
        InputError: there is no such campaign.
    """
    ledger = open_ledger(settings.ledger, upgrade=False)
    known = {campaign.name: campaign for campaign in ledger.campaigns()}
    if name not in known:
        raise InputError(
            f"dispatcher.campaign: the ledger has no campaign {quoted(name)}. Known: {', '.join(known) or 'none'}."
        )
    units = {output["name"]: output["unit"] for output in known[name].environment["outputs"]}
    units |= known[name].environment.get("units", {})
    kind = None if by_people(known[name]) else Dispatch.model_validate(known[name].spec.get("dispatcher", {})).kind
    read = {each.trial for each in standing(ledger.campaign_results(name)).values() if each.source in (kind, "import")}
    found = (_of_trial(trial, units, trial.field if trial.id in read else None) for trial in ledger.trials(name))
    return tuple(record for record in found if record is not None)


def _of_trial(trial: Trial, units: Mapping[str, str], stored: FieldRef | None) -> KnownResult | None:
    if is_infeasible(trial):
        return KnownResult(trial.id, trial.actual, {}, infeasible=True)
    if not trial.counts or trial.outputs is None:
        return None
    return KnownResult(trial.id, trial.actual, trial.outputs, units, stored)


def table_records(settings: Settings, file: str) -> tuple[KnownResult, ...]:
    """The results in a table of the operator's folder of records, by row; rows without a result are left out.

    A column ``field`` names the file of a row's fields, by a path relative to the table.

    Raises:
        InputError: the folder is not set, the file is not in it, cannot be read, or is no such table, or it names a
            field outside its own folder.
    """
    path = _within(settings.records, file)
    with at("dispatcher.file"):
        table = read_table(path)
        if not _group(table.units, "design.") or not (_group(table.units, "output.") or COLUMN in table.units):
            raise InputError(
                f"{path}: it has no columns design.NAME, or no columns output.NAME. Write them before the names of "
                "variables and results, as 'fieldcraft export NAME --csv FILE' does."
            )
        units = {
            name: unit
            for prefix in ("design.", "ran.", "output.")
            for name, unit in _group(table.units, prefix).items()
            if unit is not None
        }
        found = [_of_row(path, row, units) for row in table.rows]
    return tuple(record for record in found if record is not None)


def _within(folder: Path | None, file: str) -> Path:
    if folder is None:
        raise InputError(
            f"dispatcher.file: {quoted(file)} is given, and the operator names no folder of records. Ask for "
            "FIELDCRAFT_RECORDS to be set."
        )
    path = (folder / file).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise InputError(
            f"dispatcher.file: {quoted(file)} is no file in {folder}, the folder that FIELDCRAFT_RECORDS names. Put it "
            "there."
        )
    return path


def _of_row(table: Path, row: Row, units: Mapping[str, str]) -> KnownResult | None:
    """The result in a row; None where it has none, where that was retracted, or where a coarser level was run.

    Raises:
        InputError: an output is no number, or the field lies outside the table's folder.
    """
    cells = row.cells
    ran = {key: value for key, value in _group(cells, "ran.").items() if value}
    known, design = cells.get("trial") or row.place.rpartition(": ")[2], {**_group(cells, "design."), **ran}
    if cells.get("state") == "FAILED" and cells.get("feasible") == "no" and not cells.get(LEVEL):
        return KnownResult(known, design, {}, units, infeasible=True)
    if no_result(cells):
        return None
    told = {key: value for key, value in _group(cells, "output.").items() if value}
    outputs = {key: finite(value, f"{row.place}: {key}") for key, value in told.items()}
    file = named_field(table, named, row.place, table.parent) if (named := cells.get(COLUMN)) else None
    return KnownResult(known, design, outputs, units, file=file) if outputs or file else None


def _group(row: Mapping[str, _Cell], prefix: str) -> dict[str, _Cell]:
    return {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
