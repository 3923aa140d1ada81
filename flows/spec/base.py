"""Validation that all parts of a campaign or study file share: known keys, and numbers that are finite and in bounds.

Every number has a largest value, beyond which nothing useful could be done with it.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from fieldcraft.flows.errors import MOST_FAULTS
from fieldcraft.flows.text import HUGE, QUOTED, nearest, quoted, shown, suggestion

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_MISSING = ("missing", "missing_argument")
_WORD = re.compile("'([^']*)'")
_RUN = re.compile(rf"\S{{{QUOTED + 1},}}")  # a value that a message of a kind's own quotes
_PLAINLY = {  # pydantic's words for kinds of values
    "tuple_type": "Input should be a valid list, [a, b]",
    "dict_type": "Input should be a valid mapping of keys to values",
    "model_type": "Input should be a valid mapping of keys to values",
    "float_parsing": "Input should be a valid number, with a decimal point and without its unit",
    "int_parsing": "Input should be a valid integer, in digits and without its unit",
}
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$"
"""Pattern of the name of a campaign or a study."""
LABEL = r"^[A-Za-z0-9][A-Za-z0-9_]{0,39}$"
"""Pattern of the label of a problem or an algorithm in a study."""
TITLE = r"^[A-Za-z0-9][A-Za-z0-9_ -]{0,59}$"
"""Pattern of a name that may hold blanks."""
FILE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"
"""Pattern of the name of a file in a folder of its own: no path, no option, nothing hidden."""
UNIT = r"^[^\p{C}\p{Zl}\p{Zp}]*$"
"""Pattern of a text without control characters and separators of lines."""
_FIRST = "letters of a to z, digits{} and _, a letter or digit first"
_IN_WORDS = {
    NAME: f"Give at most 60 {_FIRST.format(', -')}",
    LABEL: f"Give at most 40 {_FIRST.format('')}",
    TITLE: f"Give at most 60 {_FIRST.format(', blanks, -')}",
    FILE: "Give at most 100 letters of a to z, digits, -, . and _, none of - and . first",
    UNIT: "Give a text without control characters, on one line",
}
_ALONE = {"budget": "trials", "start": "n", "noise": "sd", "failure_rate": "above"}  # what a number alone may stand for
_KINDS = {
    "problem",
    "simulator",
    "algorithm",
    "surrogate",
    "acquisition",
    "maximizer",
    "proposer",
    "rule",
    "peer",
    "dispatcher",
    "emulator",
}
_WHOLE = 2**63
_SUCH_AS = {
    "name": ", such as name: alloy",
    "seed": ", such as seed: 1",
    "problem": ", such as problem: {kind: branin}",
    "algorithm": ", such as algorithm: {kind: auto}",
    "algorithm.start": ", such as start: {n: 5}",
    "budget": ", such as budget: {trials: 30}",
}
STORED = "stored"
"""Context of the validation of what a ledger keeps."""
_PASSES = 1_000_000  # trials: each pass reads them all
_MOST_COUNTED = 10_000_000


def no_truth(value: Any) -> Any:
    """Return a value given for a number, unless it is true or false.

    Raises:
        ValueError: it is true or false.
    """
    if isinstance(value, bool):
        raise ValueError("true and false say nothing here: give a number, or quote the word")
    return value


def no_text(value: Any) -> Any:
    """Return a value given for a number, unless it is a number within quotes.

    Raises:
        ValueError: it is a number within quotes.
    """
    if isinstance(value, str) and is_number(value):
        raise ValueError("a number within quotes is text: take the quotes off")
    return value


def is_number(text: str) -> bool:
    """True if a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def at_most(limit: float, why: str) -> AfterValidator:
    """An upper bound for numbers that people give; it does not hold for numbers that a ledger stores.

    Args:
        limit: The largest number that may be given.
        why: Reason for the bound, for the error.
    """

    def within(value: float, about: ValidationInfo) -> float:
        if value > limit and about.context != STORED:
            raise ValueError(f"it may be {limit:,.16g} at most, for {why}. Give a smaller number")
        return value

    return AfterValidator(within)


Finite = Annotated[float, BeforeValidator(no_text), BeforeValidator(no_truth), Field(allow_inf_nan=False)]
Trials = Annotated[int, Field(ge=1), at_most(_PASSES, "every pass reads all trials")]
Batch = Annotated[int, Field(ge=1), at_most(10_000, "one pass proposes them all, one after the other")]
Parallel = Annotated[int, Field(ge=1), at_most(10_000, "one pass asks after all that run")]
Seconds = Annotated[float, Field(gt=0), at_most(1e8, "that is three years")]
Hours = Annotated[float, Field(gt=0), at_most(1e7, "that is a thousand years")]
Cost = Annotated[float, Field(gt=0), at_most(1e15, "beyond it sums lose single units")]


class Part(BaseModel):
    """A part of a file: frozen; refuses unknown keys, and texts, true and false in the place of numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: Any, about: ValidationInfo) -> Any:
        types = set(types_of(cls.model_fields[about.field_name or ""].annotation))
        if types & {int, float} and str not in types:
            no_text(value)
        return value if bool in types else no_truth(value)


def types_of(annotation: Any) -> Iterator[Any]:
    """Types of an annotation or of its union, without the item types of containers."""
    if isinstance(annotation, type) or not (parts := get_args(annotation)):
        yield annotation
        return
    for part in parts:
        yield from types_of(part)


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All values of a file that hold no others, each with its place, such as ``space.x1[0]``."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, data


def out_of_reach(data: Mapping[str, Any], counted: str = "algorithm") -> Iterator[str]:
    """Faults of numbers anywhere in a file that are not finite, too large or too small.

    Args:
        data: Content of the file.
        counted: Prefix of the places where a whole number counts steps, samples or nodes of a computation.
    """
    for path, value in leaves(data):
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{path}: {value} is no number to work with. Give a finite one."
        elif isinstance(value, float) and value and not 1 / HUGE <= abs(value) <= HUGE:
            yield (
                f"{path}: {value:g} is out of reach, for its square is no number any more. Give 0 or a number from "
                f"{1 / HUGE:g} to {HUGE:g}, in another unit if need be."
            )
        elif isinstance(value, int) and abs(value) >= _WHOLE:
            yield f"{path}: {quoted(value)} is out of reach, for a ledger keeps 63 bits. Give a smaller number."
        elif path.startswith(counted) and type(value) is int and value > _MOST_COUNTED:
            yield (
                f"{path}: {value} is out of reach: so many steps, samples or nodes end on no machine. Give at most "
                f"{_MOST_COUNTED:,}."
            )


def faults_of(
    error: ValidationError,
    where: str,
    known: Callable[[tuple[int | str, ...]], Sequence[str]],
    data: Mapping[str, Any],
) -> list[str]:
    """Faults that pydantic found, one for each place: place, problem, value, nearest key that exists.

    Args:
        error: Error of pydantic.
        where: Prefix of every place.
        known: Function that returns the keys that exist in a place.
        data: Data that were validated.
    """
    places: dict[tuple[int | str, ...], list[Any]] = {}
    for fault in error.errors():
        places.setdefault(_place(fault["loc"], data), []).append(fault)
    misspelt = [place for place, (fault, *_) in places.items() if fault["type"] in _UNKNOWN][:MOST_FAULTS]
    found: list[str] = []
    for place, (fault, *others) in places.items():
        if fault["type"] in _MISSING and any(_meant(other, place) for other in misspelt):
            continue
        path = ".".join(str(part) for part in (*([where] if where else ()), *place))
        keys = known(place[:-1]) if fault["type"] in _UNKNOWN and len(found) < MOST_FAULTS else ()
        found.append(_told(path, fault, [other["msg"] for other in others], keys))
    return found


def _meant(misspelt: tuple[int | str, ...], missing: tuple[int | str, ...]) -> bool:
    """True if an unknown key is a misspelling of the missing one."""
    return misspelt[:-1] == missing[:-1] and nearest(str(misspelt[-1]), [str(missing[-1])]) is not None


def _told(path: str, fault: Any, more: Sequence[str], keys: Sequence[str]) -> str:
    if fault["type"] in _UNKNOWN:
        wrong = str(fault["loc"][-1])
        hint = suggestion(wrong, keys) or (f" Known: {', '.join(keys)}." if keys else " Remove it.")
        return f"{shown(path)}: unknown key {quoted(wrong)}.{hint}"
    if fault["type"] in _MISSING:
        return f"{shown(path)}: missing. Give it{_SUCH_AS.get(shown(path), '')}."
    given, first = fault["input"], _plainly(fault)
    others = (other[:1].lower() + other[1:] for other in more)
    message = _RUN.sub(lambda run: shown(run[0]), ", or ".join([first, *others]))
    hint = suggestion(given, _WORD.findall(message)) if isinstance(given, str) else ""
    hint = hint or _as_mapping(path, fault) or _as_text(fault)
    value = "" if isinstance(given, Mapping) else f" (given: {quoted(given)})"
    return f"{shown(path)}: {message}{value}{hint and f'.{hint}'}" if path else f"{message}{value}"


def _plainly(fault: Any) -> str:
    """Message of a fault, in plain words where pydantic's are those of a programmer."""
    if fault["type"] == "int_parsing_size":
        return "it is out of reach for a whole number. Give a smaller one"
    if fault["type"] == "string_pattern_mismatch" and (said := _IN_WORDS.get(fault["ctx"]["pattern"])):
        return said
    return _PLAINLY.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))


def _as_mapping(path: str, fault: Any) -> str:
    """Sentence that writes a value, given alone, as the mapping that it stands for; empty where none is known."""
    key, given = path.rpartition(".")[2], fault["input"]
    if fault["type"] not in ("dict_type", "model_type"):
        return ""
    inner = "kind" if isinstance(given, str) and key in _KINDS else _ALONE.get(key)
    if inner is None or isinstance(given, str) != (inner == "kind") or not isinstance(given, str | int | float):
        return f" Write it{_SUCH_AS[path]}." if path in _SUCH_AS else ""
    return f" Write {key}: {{{inner}: {shown(str(given))}}}."


def _as_text(fault: Any) -> str:
    """Sentence that writes a number in a list of texts as a text; empty for any other fault."""
    given = fault["input"]
    if fault["type"] != "string_type" or not isinstance(fault["loc"][-1], int) or not isinstance(given, int | float):
        return ""
    return " Write the word in quotes." if isinstance(given, bool) else f" Write '{given}', in quotes."


def _place(loc: Sequence[int | str], data: Any) -> tuple[int | str, ...]:
    """Place of a fault in the data, without the parts that pydantic adds for each type of a union.

    A mapping that stands alone where a list may stand is no item of one.
    """
    place: list[int | str] = []
    for part in loc:
        if isinstance(part, int) and isinstance(data, Mapping) and part not in data:
            continue
        known = range(len(data)) if isinstance(data, list | tuple) else data if isinstance(data, Mapping) else ()
        if part not in known:
            return (*place, part) if isinstance(data, Mapping) else tuple(place)
        place.append(part)
        data = data[part]
    return tuple(place)
