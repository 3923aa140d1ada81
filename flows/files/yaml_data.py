"""YAML as plain data: files that a person writes, without tags, anchors or anything that runs code.

A plain word is null, true or false, a number or text, as in YAML 1.2: yes, no, on, off and dates are text. Values that
YAML 1.1 and 1.2 read differently (010, 1:30) are refused.
"""

import errno
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

import fieldcraft
from fieldcraft.flows.errors import InputError, first_of
from fieldcraft.flows.text import quoted, shown

MAX_BYTES = 1_000_000
_MOST_BITS = 256  # of a whole number: beyond, it measures and counts nothing, and an error could not quote it
_TAG = "tag:yaml.org,2002:"
_READ_ANEW = tuple(_TAG + name for name in ("bool", "int", "float", "timestamp"))
_BOOL = re.compile("true|True|TRUE|false|False|FALSE")
_INT = re.compile("[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)")
_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))"
    r"|\.(?:nan|NaN|NAN)"
)
_SCALARS = (("bool", _BOOL, "tTfF"), ("int", _INT, "-+0123456789"), ("float", _FLOAT, "-+.0123456789"))
_CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_ZERO_FIRST = re.compile("[-+]?0[0-9_]+")

_REMEDIES = {  # of a parser's problems, by words in them
    r"'\t'": "Indent by blanks, not by tabs.",
    "mapping values are not allowed": "A blank follows a key's colon, and a text with a colon stands in quotes.",
}

_PACKAGE = Path(fieldcraft.__file__).parent
_READY = ("campaigns", "studies")  # its folders of ready files

Place = tuple[str | int, ...]
_PLACE = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*")


@dataclass(frozen=True)
class Page:
    """A YAML file that was read.

    Args:
        path: Path of the file.
        data: Its content.
        lines: Line number of each key or item, by its place: ``("space", "x1", 0)``.
    """

    path: Path
    data: dict[str, Any]
    lines: Mapping[Place, int]

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise errors of the block again with this file's path and the line of their place in front.

        A message begins with its place: ``algorithm.start.n: ...``. A missing key has the line of the mapping that
        lacks it.
        """
        try:
            yield
        except InputError as error:
            faults = sorted(error.faults, key=lambda fault: self.line(fault) or math.inf)
            raise InputError(*first_of([self._placed(fault) for fault in faults])) from None

    def line(self, fault: str) -> int | None:
        """The line of the place with which a message begins; None where it begins with no place of this file."""
        named = _PLACE.match(fault)
        parts = re.split(r"[.\[]", named[0].replace("]", "")) if named else []
        place: Place = tuple(int(part) if part.isdecimal() else part for part in parts)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place) if place else None

    def _placed(self, fault: str) -> str:
        line = self.line(fault)
        return f"{self.path}: {fault}" if line is None else f"{self.path}: line {line}: {fault}"


class _PlainLoader(yaml.SafeLoader):
    """Loader of YAML as data: no tags, no anchors, no key given twice, no text or number that cannot be written.

    Faults are collected in ``faults`` while nodes are composed; if there are any, no data is constructed.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.faults: list[tuple[int, str]] = []

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if getattr(event, "tag", None) is not None:
            self._fault(line, f" carries the tag {quoted(event.tag)}: the file is plain data. Remove the tag.")
            event.tag = None
        if getattr(event, "anchor", None) is not None:
            self._fault(line, f" uses the anchor {quoted(event.anchor)}. Write the value out.")
            event.anchor = None
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode(f"{_TAG}null", "")
        return super().compose_node(parent, index)

    def compose_scalar_node(self, anchor: Any) -> Any:
        plain = self.peek_event().style is None  # type: ignore[no-untyped-call]
        node = super().compose_scalar_node(anchor)
        if problem := _unreadable(node.value, plain):
            self._fault(node.start_mark.line + 1, f" holds {problem}.")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        known = set[str]()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag != f"{_TAG}str":
                told = shown(key.value) if isinstance(key, yaml.ScalarNode) else f"that is a {key.id}"
                remedy = "A decimal takes a point, not a comma." if _after_comma(key, value) else "Quote it."
                self._fault(line, f": key {told} is not text. {remedy}")
            elif key.value in known:
                self._fault(line, f": key {quoted(key.value)} is given twice. Remove one.")
            else:
                known.add(key.value)
        return node

    def _fault(self, line: int, problem: str) -> None:
        self.faults.append((line, f"line {line}{problem}"))


def _after_comma(key: Any, value: Any) -> bool:
    """True for the 5 that YAML finds in ``high: 90,5}``: a number as a key, without even a colon."""
    return key.tag == f"{_TAG}int" and bool(value.start_mark.index == key.end_mark.index)


def _unreadable(text: str, plain: bool) -> str | None:
    """The reason why a scalar is refused; None where it is accepted."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"half of a letter ({quoted(text)}). Write the letter itself"
    if not plain:
        return None
    if _CLOCK.fullmatch(text):
        return f"{shown(text)}, a number to the base 60 in YAML 1.1. Write the number out, or quote what is text"
    if _ZERO_FIRST.fullmatch(text):
        return f"{shown(text)}, a number to the base 8 in YAML 1.1. Leave out the zero in front, or quote what is text"
    if _INT.fullmatch(text) and (len(text) > _MOST_BITS or int(text.replace("_", ""), 0).bit_length() > _MOST_BITS):
        return f"a number with too many digits ({shown(text)}). Give a smaller one"
    return None


def _resolvers() -> dict[Any, list[tuple[str, re.Pattern[str]]]]:
    """Types and patterns of plain words, by first letter."""
    kept = {
        first: [(tag, pattern) for tag, pattern in known if tag not in _READ_ANEW]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for name, pattern, letters in _SCALARS:
        whole = re.compile(f"(?:{pattern.pattern})$")
        for first in letters:
            kept.setdefault(first, []).append((_TAG + name, whole))
    return kept


_PlainLoader.yaml_implicit_resolvers = _resolvers()


def read_page(path: Path, what: str = "campaign file", example: str = "campaigns/heat.yaml") -> Page:
    """Read a YAML file that holds one mapping of plain data.

    Args:
        path: Path of the file.
        what: Kind of file expected, for errors.
        example: Path of an example, for errors.

    Raises:
        InputError: it cannot be read, is too large, is no YAML, carries a tag, an anchor or a key twice, holds a value
            that YAML 1.1 and 1.2 read differently, or is no mapping.
    """
    return _page(path, _text(path, what), what, example)


def _page(path: Path, text: str, what: str, example: str) -> Page:
    try:
        loader = _PlainLoader(text)
        node = loader.get_single_node()
        if loader.faults:
            raise InputError(*first_of([f"{path}: {fault}" for _, fault in sorted(loader.faults)]))
        data = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the others: a number that cannot be
        raise InputError(f"{path}: is not YAML: {_told(error)}") from None
    except RecursionError:
        raise InputError(f"{path}: is not YAML: it is nested too deeply. Give a {what}.") from None
    if not isinstance(data, dict):
        held = "nothing" if data is None else f"a {type(data).__name__}"
        raise InputError(f"{path}: holds {held}, not a mapping. Begin from {example}.")
    return Page(path, data, dict(_lines(node)))


def _told(error: Exception) -> str:
    """Message of a parser with the lines that it names, and what to do."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{' '.join(str(error).split())}. Mend that place."
    parts = (error.context, error.context_mark), (error.problem, error.problem_mark)
    said = [
        f"{text} (line {mark.line + 1}, column {mark.column + 1})" if mark else text for text, mark in parts if text
    ]
    remedy = next((way for words, way in _REMEDIES.items() if words in (error.problem or "")), "Mend that place.")
    return f"{', '.join(said)}. {remedy}"


def load_yaml(path: Path) -> dict[str, Any]:
    """Read the data of a YAML file; see ``read_page``."""
    return read_page(path).data


def load_again(path: Path, what: str) -> Mapping[str, Any]:
    """Read the data of a YAML file that is read at every turn; they are parsed again only once its text is another.

    Args:
        path: Path of the file.
        what: Kind of file expected, for errors.

    Raises:
        InputError: as of ``read_page``.
    """
    return _parsed(path, _text(path, what), what)


@lru_cache(maxsize=8)
def _parsed(path: Path, text: str, what: str) -> Mapping[str, Any]:
    return _page(path, text, what, "docs/security.md").data


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        place = path if error.errno != errno.ENAMETOOLONG else shown(str(path))
        remedy = _meant(path) if error.errno == errno.ENOENT else None
        remedy = remedy or "Check the path and your rights to it."
        raise InputError(f"{place}: cannot be read ({error.strerror}). {remedy}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text. Give a YAML file.") from None
    except ValueError as error:  # a null byte
        raise InputError(f"{quoted(str(path))} is no path ({error}). Give another.") from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: is over {MAX_BYTES} bytes, too large for a {what}. Check the path.")
    return text


def _meant(path: Path) -> str | None:
    """Remedy for a missing file: the file of a campaign that was named, or a ready one; None where neither is there."""
    if not path.suffix and (file := path.with_suffix(".yaml")).is_file():
        return f"A file is asked for, not a name. Did you mean {file}?"
    if path.parent.name in _READY and not path.is_absolute() and (_PACKAGE / path.parent.name / path.name).is_file():
        ready = f"{path.parent.name}/{path.name}"
        return f"'fieldcraft examples {ready} > {path.name}' writes the ready file here."
    return None


def _lines(node: Any, place: Place = ()) -> Iterator[tuple[Place, int]]:
    """The line of every key and item of a mapping or sequence, below it too."""
    if isinstance(node, yaml.MappingNode):
        parts = [((*place, key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [((*place, index), item, item) for index, item in enumerate(node.value)]
    else:
        return
    for at, first, value in parts:
        yield at, first.start_mark.line + 1
        yield from _lines(value, at)
