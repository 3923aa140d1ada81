"""Results that people hand in, as data: tables (CSV) whose headers may carry units, and JSON.

A header names a column and may state its unit: ``value [K]``, ``x1 [mm]``. Comma, semicolon or tab separate cells; a
line ``sep=;`` before the header, as spreadsheets know it, says which.

A spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula. ``write_rows``, which writes all
our tables, puts an apostrophe before such a text; every reader of tables removes it again.
"""

import csv
import dataclasses
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.json_data import each_key_once
from fieldcraft.flows.text import HUGE, counted, printable, quoted
from fieldcraft.physics.space import Categorical, Continuous, Design, Integer, SpaceError, Variable

MAX_BYTES = 50_000_000
OWN_COLUMNS = ("key", "trial", "cost", "seconds", "field", "notes")  # beside variables, outputs and "OUTPUT sd"
# A name may end with the number of a vector's component, w[0], with no space before it.
_TITLE = re.compile(r"\s*(?P<name>.*?(?:(?<=\S)\[\d+\])?)\s*(?:\[(?P<unit>[^\[\]]*)\]\s*)?")
_FORMULA = re.compile(r"'*(\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")  # the signs of full width too
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SEPARATOR = re.compile(r"\"?sep=([,;\t])\"?[,;\t]*\n")  # a first line by which spreadsheets tell the separator
_WORKBOOK = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")  # .xlsx, .ods and .numbers; .xls


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Args:
        place: File and line, for errors.
        cells: Text of each cell by the column's name without the unit; an empty cell is "".
    """

    place: str
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        file: Where it was read.
        units: Unit of each column by its name; None where the header states none.
        rows: Its lines, blank ones left out.
    """

    file: Path
    units: Mapping[str, str | None]
    rows: tuple[Row, ...]

    def require_units(self, units: Mapping[str, str]) -> None:
        """Accept the table if every unit that its header states is the expected one.

        Raises:
            InputError: a unit differs. Nothing is converted.
        """
        for name, unit in units.items():
            given = self.units.get(name)
            if given is not None and given not in (unit, printable(unit)):
                raise InputError(
                    f"{self.file}: the header gives {name} in {quoted(given)}, and it is in {unit or 'no unit'!r} "
                    "here. Convert the column and its header; nothing was read."
                )


@dataclass(frozen=True)
class Measurement:
    """One submitted measurement of a trial.

    Args:
        trial: Id of the trial.
        key: The attempt's key, where it was given; None for the present attempt.
        values: Outputs in their units.
        sd: Standard deviations of outputs, in the outputs' units.
        ran: Variables of the design as it was run, as far as they were given.
        restated: True if ``ran`` repeats the requested design, as a work order's table does; only the variables that
            differ from it then count.
        field: A file of the field (netCDF, or a folder of zarr).
        cost: Cost of the attempt, in budget units.
        seconds: Wall time of the attempt.
        note: Remarks.
        more: Other columns or keys that were handed in.
        place: File and line, for errors.
    """

    trial: str
    key: str | None = None
    values: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sd: Mapping[str, float] = dataclasses.field(default_factory=dict)
    ran: Design = dataclasses.field(default_factory=dict)
    restated: bool = False
    field: Path | None = None
    cost: float | None = None
    seconds: float | None = None
    note: str = ""
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    place: str = ""

    @property
    def empty(self) -> bool:
        """True if no value and no field is given, as in a line that is not filled in."""
        return not self.values and self.field is None


def write_rows(out: TextIO, rows: Iterable[Sequence[object]], end: str = "\r\n") -> None:
    """Write lines of cells; a text that a spreadsheet would take for a formula gets an apostrophe, numbers do not.

    Args:
        out: File to write to.
        rows: The lines.
        end: Line ending.
    """
    csv.writer(out, lineterminator=end).writerows([_guarded(cell) for cell in row] for row in rows)


def _guarded(cell: object) -> object:
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unguarded(cell: str) -> str:
    """A cell as it was before ``write_rows`` wrote it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def read_table(file: Path, renamed: Mapping[str, str] | None = None) -> Table:
    """Read a table with a header.

    Args:
        file: UTF-8 text.
        renamed: Columns (with or without the unit) that stand for other names.

    Raises:
        InputError: it cannot be read, has no header, a column twice, or a line with more or fewer cells.
    """
    return table_of(file, read_bytes(file), renamed)


def table_of(file: Path, raw: bytes, renamed: Mapping[str, str] | None = None) -> Table:
    """Parse a table as ``read_table`` does, from the bytes of its file."""
    text = _text(file, raw)
    if said := _SEPARATOR.match(text):
        separator, text = said[1], f"\n{text[said.end() :]}"
    else:
        separator = max(",;\t", key=text.split("\n", 1)[0].count)
    try:
        reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
        lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise InputError(f"{file}: is no table ({error}). Give a CSV with a header.") from None
    if not lines:
        raise InputError(f"{file}: is empty. Give a table with a header.")
    titles = [_titled(title, renamed or {}) for title in lines[0][1]]
    names = [name for name, _ in titles]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{file}: column {quoted(twice)} stands there twice. Remove one.")
    for number, line in lines[1:]:
        if len(line) != len(names):
            raise InputError(
                f"{file}: line {number} has {counted(len(line), 'cell')} and the header {len(names)}. Mend that line; "
                "a number with a decimal comma is to be written with a point."
            )
    rows = (
        Row(f"{file}: line {n}", {name: unguarded(cell.strip()) for name, cell in zip(names, line, strict=True)})
        for n, line in lines[1:]
    )
    return Table(file, dict(titles), tuple(rows))


def read_bytes(file: Path) -> bytes:
    """The bytes of a file that may hold a table; at most ``MAX_BYTES`` (50 MB).

    Raises:
        InputError: it cannot be read, or is too large for a table.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}). Check the path and your rights to it.") from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"{file}: is over {MAX_BYTES} bytes, too large for a table. Check the path.")
    return raw


def _text(file: Path, raw: bytes) -> str:
    if raw.startswith(_WORKBOOK):
        raise InputError(f"{file}: is a spreadsheet's own file, not a table in text. Save its sheet as CSV (UTF-8).")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        return text if "\n" in text else text.replace("\r", "\n")  # which alone ends the lines of an old Macintosh
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text. Save it as UTF-8.") from None


def readable(name: str) -> bool:
    """True if a column of this name can be read back from a header."""
    return name.isprintable() and _titled(name, {}) == (name, None)


def _titled(title: str, renamed: Mapping[str, str]) -> tuple[str, str | None]:
    title = unguarded(" ".join(title.splitlines()))  # spreadsheets break a long header into lines
    match = _TITLE.fullmatch(title)
    assert match is not None  # the pattern matches every line
    name, unit = match["name"], match["unit"]
    return renamed.get(title.strip(), renamed.get(name, name)), unit


def number(text: str, what: str) -> float:
    """Parse a finite number whose square is one too.

    Raises:
        InputError: it is none; ``what`` names the value in the message.
    """
    value = finite(text, what)
    if value and not 1 / HUGE <= abs(value) <= HUGE:
        raise InputError(
            f"{what} is {quoted(text)}, out of reach, for its square is no number any more. Give 0 or a number from "
            f"{1 / HUGE:g} to {HUGE:g}."
        )
    return value


def finite(text: str, what: str) -> float:
    """Parse a finite number.

    Raises:
        InputError: it is none; ``what`` names the value in the message.
    """
    if "_" in text:  # 1_5 is 15 to Python, and a slip for 1.5 to people
        raise InputError(f"{what} is {quoted(text)}. Write the number without the underscore.")
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{what} is {quoted(text)}, no number. Give one, with a decimal point.") from None
    if not math.isfinite(value):
        raise InputError(f"{what} is {quoted(text)}. Give a finite number.")
    return value


def level(variable: Variable, text: str, what: str) -> float | int | str:
    """Parse a variable's value by its type; bounds are not checked.

    Raises:
        InputError: it is no number, no whole number or no level.
    """
    if isinstance(variable, Continuous):
        return number(text, what)
    if isinstance(variable, Integer):
        value = number(text, what)
        if value != round(value):
            raise InputError(f"{what} is {quoted(text)}. Give a whole number.")
        return round(value)
    if isinstance(variable, Categorical) and text not in variable.levels:
        text = {printable(each): each for each in variable.levels}.get(text, text)
    try:
        variable.check(text)
    except SpaceError as error:
        raise InputError(f"{what}: {error}") from None
    return text


def differs(variable: Variable, asked: object, given: object) -> bool:
    """True if a variable's value is another than the requested one, which people and spreadsheets tell rounded."""
    if isinstance(variable, Continuous):
        return not variable.told_alike(float(str(asked)), float(str(given)))
    return asked != given


def read_json_results(file: Path) -> list[Mapping[str, Any]]:
    """Results in JSON: one object, or a list of them.

    Raises:
        InputError: it cannot be read, or holds something else.
    """
    try:
        data = json.loads(_text(file, read_bytes(file)), object_pairs_hook=each_key_once)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise InputError(f"{file}: is no JSON ({error}). Mend that place.") from None
    items: Sequence[Any] = data if isinstance(data, list) else [data]
    if not items or not all(isinstance(item, dict) for item in items):
        raise InputError(f"{file}: holds no result. Give an object with 'trial' and 'values', or a list of them.")
    return list(items)
