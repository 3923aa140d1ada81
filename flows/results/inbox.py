"""Tables and JSON files of results: many trials at once, handed to a command or dropped into a watched folder.

ORDERS/results/*.csv, *.json       dropped by people (or *.tsv); read by a pass 1 s after the last write to it
ORDERS/results/taken/NAME          recorded, with NAME.said.txt on the outcome of each line
ORDERS/results/refused/NAME        not recorded, not even in part, with NAME.why.txt on the reason
"""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_files import named_field
from fieldcraft.flows.files.tables import (
    OWN_COLUMNS,
    Measurement,
    Row,
    Table,
    level,
    number,
    read_json_results,
    read_table,
)
from fieldcraft.flows.jobs.dispatcher import Ordering
from fieldcraft.flows.jobs.keys import attempt_key
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.webhooks import NotDelivered
from fieldcraft.flows.results.record import CheckedMeasurement, NotYet, Recorded, check, kept, known_trial, record
from fieldcraft.flows.spec.base import faults_of, no_truth
from fieldcraft.flows.spec.registry import suggestion
from fieldcraft.flows.text import HUGE, counted, one_line, quoted
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.context import ACTOR, Site
from fieldcraft.flows.wiring.fit.derived import require_measured_columns
from fieldcraft.storage.failpoints import commit_point
from fieldcraft.storage.field_store.staging import sync
from fieldcraft.storage.fields import FieldError
from fieldcraft.storage.ledger import ForbiddenMove, InvalidRecord, Ledger
from fieldcraft.storage.records import TrialState

QUIET_S = 1.0  # a file that was written to more recently may be half-written
_NAME_BYTES = 180  # of a file that is moved aside: room for what is added to it, within what a disk takes
RESULTS = frozenset({".csv", ".tsv", ".json", ".xlsx", ".xlsm", ".xls", ".ods", ".numbers"})
"""Endings of files that are read as results; a spreadsheet's own is then refused, so that nobody waits for it."""
_OUT = frozenset({TrialState.STAGED, TrialState.RUNNING, TrialState.HELD})


@dataclass(frozen=True)
class Batch:
    """Outcome of a file of results.

    Args:
        recorded: One for each line that was filled in.
        waiting: Trials of the same iterations whose results are still to come.
    """

    recorded: tuple[Recorded, ...]
    waiting: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """The outcome in words, one line each."""
        said = [line for one in self.recorded for line in (one.text, *(f"warning: {w}" for w in one.warnings))]
        return [*said, *([f"Still to come: {', '.join(self.waiting)}."] if self.waiting else [])]


class _RecordedInPart(InputError):
    """A line of a file was refused when those before it had been recorded."""


class _Named(BaseModel):
    """Trial of a result in JSON; other keys are ignored."""

    model_config = ConfigDict(frozen=True)
    trial: str | None = None
    key: str | None = None


def _number(value: Any) -> Any:
    if isinstance(value, str) and "_" in value:
        raise ValueError("a number is written without an underscore")
    if isinstance(value, float) and HUGE < abs(value) < math.inf:
        raise ValueError(f"it is out of reach: give a number up to {HUGE:g}")
    return no_truth(value)


_Number = Annotated[float, BeforeValidator(_number)]


class _Handed(_Named):
    """One result in JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    values: Mapping[str, _Number] = {}
    units: Mapping[str, str] = {}
    sd: Mapping[str, _Number] = {}
    ran: Mapping[str, Annotated[float | int | str, BeforeValidator(no_truth)]] = {}
    field: str | None = None
    cost: _Number | None = None
    seconds: _Number | None = None
    notes: str = ""


_Json = TypeVar("_Json", bound=_Named)


def record_file(
    site: Site, file: Path, by: str, source: str, within: Path | None = None, *, watched: bool = False
) -> Batch:
    """Record every line of a file; all are checked, and their fields stored, before the first is recorded.

    Recording the same file again changes nothing, so a file that was interrupted by a crash is recorded again.

    Args:
        site: The campaign.
        file: CSV or JSON.
        by: Person who records.
        source: Source of the file.
        within: Folder that the field files it names must lie in; None for anywhere.
        watched: True for a file of the watched folder, into which somebody may still be copying a field.

    Raises:
        InputError: something in it is wrong; nothing of it was recorded.
        flows.results.record.NotYet: one of its trials is still being sent, or a field of a watched folder was written
            to in the last second; nothing of it was recorded.
    """
    if one_line(file.name) != file.name:
        raise InputError(f"{one_line(file.name)}: the file's name holds what cannot be kept. Give it another name.")
    given = [measurement for measurement in measurements_of(site.campaign, file, within) if not measurement.empty]
    fields = [measurement.field for measurement in given if measurement.field is not None]
    if watched and (moving := next((field for field in fields if not _at_rest(field)), None)) is not None:
        raise NotYet(f"{moving}: was written to in the last {QUIET_S:g} s, and may be half-written.")
    sound = [check(site, measurement) for measurement in given]
    if not sound:
        raise InputError(f"{file}: no result is filled in. Fill in a column of an output, or name a field file.")
    _require_one_value(sound)
    recorded = list[Recorded]()
    for checked in [kept(site, one) for one in sound]:
        try:
            recorded.append(record(site, checked, by, source))
        except InputError as error:  # somebody recorded something else while the file was checked
            if recorded:
                done = f"{counted(len(recorded), 'result')} of the file {'was' if len(recorded) == 1 else 'were'}"
                stays = f"{done} recorded before that, and stay{'s' * (len(recorded) == 1)}."
                raise _RecordedInPart(f"{error} {stays}") from error
            raise
    iterations = {site.ledger.trial(one.trial).iteration for one in recorded}
    waiting = [t.id for t in site.ledger.trials(site.name, states=_OUT) if t.iteration in iterations]
    return Batch(tuple(recorded), tuple(waiting))


def _require_one_value(sound: Sequence[CheckedMeasurement]) -> None:
    """Raise ``InputError`` where two lines give different values of one output of an attempt."""
    said = dict[tuple[str, int, str], tuple[float, str]]()
    for one in sound:
        trial, place = one.measurement.trial, one.measurement.place
        for name, value in one.values.items():
            known, where = said.setdefault((trial, one.attempt, name), (value, place))
            if value != known:
                raise InputError(
                    f"{place}: {name} of {trial} is {value!r} here and {known!r} at {where}. Give one value; nothing "
                    "was recorded."
                )


def campaign_named(ledger: Ledger, file: Path) -> str:
    """The campaign whose trial the first line of a file names.

    Raises:
        InputError: it names none, or one that is not there.
    """
    if file.suffix.lower() == ".json":
        place = f"{file}: result 1"
        first = _validated(_Named, read_json_results(file)[0], place)
    else:
        rows = read_table(file).rows
        cells, place = (rows[0].cells, rows[0].place) if rows else ({}, str(file))
        first = _Named(trial=cells.get("trial"), key=cells.get("key"))
    trial, _ = _named(first.trial or None, first.key or None, place)
    return known_trial(ledger, trial).campaign


def measurements_of(campaign: Campaign, file: Path, within: Path | None = None) -> list[Measurement]:
    """Measurements of each trial in a file.

    Raises:
        InputError: it is not such a file, or a unit, a number or a name in it is wrong.
    """
    if file.suffix.lower() == ".json":
        return [_from_json(campaign, item, file, n, within) for n, item in enumerate(read_json_results(file), 1)]
    table = read_table(file)
    if not {"key", "trial"} & table.units.keys():
        raise InputError(f"{file}: has neither a column 'key' nor 'trial'. Name the trial of each line.")
    require_measured_columns(campaign, table.units, file)
    units = {output.name: output.unit for output in campaign.problem.measured}
    doubts = {f"{name} sd": unit for name, unit in units.items()}
    table.require_units({**campaign.problem.space.units, **units, **doubts})
    return [_from_row(campaign, table, row, within) for row in table.rows]


def _from_row(campaign: Campaign, table: Table, row: Row, within: Path | None) -> Measurement:
    cells = {name: cell for name, cell in row.cells.items() if cell}
    outputs = [output.name for output in campaign.problem.measured]
    variables = {v.name: v for v in campaign.problem.space.variables}
    numbers = {
        name: number(cells[name], f"{row.place}: {name}")
        for name in (*outputs, *(f"{name} sd" for name in outputs), "cost", "seconds")
        if name in cells
    }
    known = {*OWN_COLUMNS, *variables, *numbers}
    trial, key = _named(cells.get("trial"), cells.get("key"), row.place)
    return Measurement(
        trial=trial,
        key=key,
        values={name: numbers[name] for name in outputs if name in numbers},
        sd={name: numbers[f"{name} sd"] for name in outputs if f"{name} sd" in numbers},
        ran={n: level(v, cells[n], f"{row.place}: {n}") for n, v in variables.items() if n in cells},
        restated=True,
        field=_field(cells.get("field"), table.file, row.place, within),
        cost=numbers.get("cost"),
        seconds=numbers.get("seconds"),
        note=cells.get("notes", ""),
        more={name: cell for name, cell in cells.items() if name not in known},
        place=row.place,
    )


def _from_json(campaign: Campaign, item: Mapping[str, Any], file: Path, n: int, within: Path | None) -> Measurement:
    place = f"{file}: result {n}"
    handed = _validated(_Handed, item, place)
    units = {**campaign.problem.space.units, **{output.name: output.unit for output in campaign.problem.measured}}
    if stray := next((name for name in handed.units if name not in units), None):
        raise InputError(f"{place}: units names {quoted(stray)}, no variable and no output.{suggestion(stray, units)}")
    Table(file, handed.units, ()).require_units(units)
    variables = {v.name: v for v in campaign.problem.space.variables}
    trial, key = _named(handed.trial, handed.key, place)
    return Measurement(
        trial=trial,
        key=key,
        values=handed.values,
        sd=handed.sd,
        ran={
            name: level(variables[name], str(value), f"{place}: {name}") if name in variables else value
            for name, value in handed.ran.items()
        },
        field=_field(handed.field, file, place, within),
        cost=handed.cost,
        seconds=handed.seconds,
        note=handed.notes,
        place=place,
    )


def _validated(model: type[_Json], item: Mapping[str, Any], place: str) -> _Json:
    try:
        return model.model_validate(item)
    except ValidationError as error:
        faults = faults_of(error, "", lambda _: list(_Handed.model_fields), item)
        raise InputError(*(f"{place}: {fault}" for fault in faults)) from None


def _named(trial: str | None, key: str | None, place: str) -> tuple[str, str | None]:
    if trial is None and key is None:
        raise InputError(f"{place}: names no trial. Give 'key' or 'trial'.")
    return trial or str(key).rpartition("-")[0], key


def _field(named: str | None, file: Path, place: str, within: Path | None) -> Path | None:
    return None if named is None else named_field(file, named, place, within)


def collect(site: Site, dispatcher: Ordering) -> int:
    """Read the watched folder and close the orders of settled trials. Returns the number of trials completed.

    Raises:
        InputError: the folder of orders is not the campaign's own, or holds an order that nobody approved.
    """
    dispatcher.require_folder()
    completed = 0
    for file in _ready(dispatcher.inbox):
        batch = _take(site, file)
        completed += sum(one.verdict == "accepted" for one in batch.recorded)
    _file_orders(site, dispatcher)
    return completed


def _ready(folder: Path) -> Iterator[Path]:
    """Files of results without a write in the last second, by name; links are not followed."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.suffix.lower() not in RESULTS or file.name.startswith((".", "~$")) or file.is_symlink():
            continue
        if file.is_file() and _at_rest(file):
            yield file


def _at_rest(path: Path) -> bool:
    """True if nobody has written to a file, or to anything in a folder, in the last second; links are not followed."""
    parts = (path, *path.rglob("*")) if os.path.isdir(path) else (path,)  # of any name, also one that cannot be
    written = (seen[1] / 1e9 for part in parts if not os.path.islink(part) and (seen := _stamp(part)))
    return all(abs(time.time() - at) >= QUIET_S for at in written)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Size, time and inode of a file, which change when it is written again; None where it is gone, or cannot be."""
    with suppress(OSError, ValueError):
        found = file.stat()
        return found.st_size, found.st_mtime_ns, found.st_ino
    return None


def _take(site: Site, file: Path) -> Batch:
    """Record a file and move it aside; one that was saved again meanwhile, or is gone, is left to the next pass."""
    before = _stamp(file)
    try:
        batch = record_file(site, file, ACTOR, f"results/{one_line(file.name)}", file.parent, watched=True)
    except (NotYet, ForbiddenMove):  # a trial is only being sent, or a field copied: the next pass knows more
        return Batch((), ())
    except (InputError, FieldError, InvalidRecord) as error:
        if before is not None and _stamp(file) == before:
            nothing = "Nothing of this file was recorded: mend it and drop it again."
            in_part = isinstance(error, _RecordedInPart)
            _put(file, "refused", "why", [f"{error}", "Mend it and drop it again." if in_part else nothing])
            tell("refused", file=one_line(file.name), reason=str(error))
        return Batch((), ())
    for one in batch.recorded:
        if one.verdict == "accepted":
            trial = site.ledger.trial(one.trial)
            tell("completed", trial=trial, seconds=trial.seconds)
    if _stamp(file) == before:
        _put(file, "taken", "said", batch.lines)
        tell("taken", file=file.name, lines=batch.lines)
    return batch


def _put(file: Path, folder: str, about: str, lines: Sequence[str]) -> None:
    """Move a file aside under a unique name, with a text file beside it on the outcome."""
    target = file.parent / folder
    target.mkdir(exist_ok=True)
    stem = one_line(file.stem).encode()[:_NAME_BYTES].decode(errors="ignore")
    n, moved = 1, target / f"{stem}{file.suffix}"
    while moved.exists():
        n += 1
        moved = target / f"{stem}-{n}{file.suffix}"
    text = "".join(f"{one_line(line)}\n" for line in lines)
    moved.with_name(f"{moved.name}.{about}.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    commit_point("inbox.moved.before")
    with suppress(FileNotFoundError):  # taken away just now; what became of it is told all the same
        os.rename(file, moved)
    sync(target)
    sync(file.parent)
    commit_point("inbox.moved.after")


def _file_orders(site: Site, dispatcher: Ordering) -> None:
    """Close the orders whose trials are settled or were sent again, and update the tables."""
    trials = {trial.id: trial for trial in site.ledger.trials(site.name)}
    for key, order in dispatcher.at_large().items():
        trial = trials.get(order["trial"])
        if trial is None:  # nobody's here
            continue
        if order["digest"] not in {approval.digest for approval in site.ledger.approvals(trial.id)}:
            raise InputError(
                f"{dispatcher.place.orders}: order {key} is for a design that nobody approved for {trial.id}. Another "
                "store may have put it there: find out, and take it away. Nothing was sent."
            )
        if trial.state is TrialState.COMPLETED:
            dispatcher.forget(key)
        elif trial.state not in _OUT or attempt_key(trial) != key:
            with suppress(NotDelivered):  # the order stays among those to be cancelled, and the next pass tries again
                dispatcher.cancel({"key": key})
    dispatcher.write_tables()
