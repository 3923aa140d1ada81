"""A reference of every kind with its options, read from the classes and their docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldcraft.flows.spec.registry import PACKAGES, available, load

PLACES = {
    "problems": "problem",
    "simulators": "simulator",
    "surrogates": "algorithm.surrogate",
    "acquisitions": "algorithm.acquisition",
    "maximizers": "algorithm.maximizer",
    "proposers": "algorithm.start.proposer",
    "rules": "algorithm.constraints.rule",
    "rivals": "algorithm.peer",
    "algorithms": "algorithm",
    "dispatchers": "dispatcher",
}
"""The key of a campaign file whose ``kind`` is of a group."""
_NOT_IN_A_FILE = ("place",)  # fields that the campaign gives to its dispatcher
_SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):")
_OPTION = re.compile(r"( *)(\w+)(?: \([^)]*\))?: (.*)")
_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+_?(?=[A-Z])")


@dataclass(frozen=True)
class Option:
    """An option of a kind.

    Args:
        name: Its key in a campaign file.
        type: Type of its value.
        default: Its value when left out; None where it must be given.
        meaning: Its description in the docstring.
    """

    name: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class Kind:
    """A kind that a campaign file can name.

    Args:
        group: Its group, a key of ``registry.PACKAGES``.
        name: Its name.
        meaning: Paragraphs of its docstring.
        options: Its options.
    """

    group: str
    name: str
    meaning: tuple[str, ...]
    options: tuple[Option, ...]


def kinds(groups: Sequence[str] = tuple(PACKAGES), plugins: Sequence[Path] = ()) -> Iterator[Kind]:
    """All kinds of these groups, the operator's too.

    Args:
        groups: Keys of ``registry.PACKAGES``.
        plugins: Directories searched for kinds beside the built-in ones.

    Raises:
        InputError: a file cannot be loaded or does not hold one public frozen dataclass.
    """
    for group in groups:
        for name in sorted(available(group, plugins)):
            yield kind_of(group, name, load(group, name, plugins))


def kind_of(group: str, name: str, cls: type[Any]) -> Kind:
    """Describe the kind of a class; an option's meaning comes from the docstring of the class or its nearest base."""
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        meanings |= dict(_meanings(inspect.cleandoc(vars(base).get("__doc__") or "")))
    fields = [field for field in dataclasses.fields(cls) if field.init and field.name not in _NOT_IN_A_FILE]
    options = [Option(field.name, _type(field.type), _default(field), meanings.get(field.name, "")) for field in fields]
    return Kind(group, name, _paragraphs(inspect.cleandoc(cls.__doc__ or "")), tuple(options))


def page(given: Sequence[Kind]) -> str:
    """Write the kinds as Markdown: a heading for each group and each kind, and a table of its options."""
    lines = [
        "# Kinds and their options",
        "",
        "All that a campaign file can name, by the key under which it names it. `fieldcraft kinds --markdown` writes",
        "this page, with the kinds of your own plug-ins too.",
    ]
    group = ""
    for kind in given:
        if kind.group != group:
            group = kind.group
            lines += ["", f"## {group} (`{PLACES[group]}: {{kind: ...}}`)"]
        lines += ["", f"### {kind.name}", *(line for text in kind.meaning for line in ("", _escaped(text)))]
        if kind.options:
            lines += ["", "| option | takes | default | meaning |", "|---|---|---|---|"]
        for option in kind.options:
            default = "must be given" if option.default is None else f"`{option.default}`"
            cells = (f"`{option.name}`", f"`{option.type}`", default, _escaped(option.meaning))
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _meanings(text: str) -> Iterator[tuple[str, str]]:
    """Name and meaning of each entry of the section of arguments of a docstring."""
    within, name, told, depth = False, "", list[str](), 0
    for line in text.splitlines():
        if section := _SECTION.fullmatch(line.strip()):
            within = section[1] in ("Args", "Attributes")
        elif within and line and not line.startswith(" "):
            within = False
        elif within and (entry := _OPTION.fullmatch(line)) and (not name or len(entry[1]) <= depth):
            if name:
                yield name, " ".join(told)
            depth, name, told = len(entry[1]), entry[2], [entry[3]]
            continue
        if within and name and line.strip() and not _SECTION.fullmatch(line.strip()):
            told.append(line.strip())
    if name:
        yield name, " ".join(told)


def _paragraphs(text: str) -> tuple[str, ...]:
    """Paragraphs of a docstring that belong to no section."""
    blocks = (block for block in text.split("\n\n") if not _SECTION.match(block))
    return tuple(" ".join(block.split()) for block in blocks if block.strip())


def _type(annotation: Any) -> str:
    """Text of a type, the values of a Literal sorted: Python may give them in the order of an equal earlier type."""
    text = inspect.formatannotation(annotation)
    if union := re.fullmatch(r"(?:typing\.)?(Union|Optional)\[(.*)\]", text):
        text = " | ".join([*_split(union[2]), *(["None"] if union[1] == "Optional" else [])])
    text = re.sub(r"(?:typing\.)?Literal\[([^]]*)\]", lambda found: " | ".join(sorted(_split(found[1]))), text)
    return _QUALIFIED.sub("", text).replace("typing.", "").replace("NoneType", "None")


def _split(text: str) -> list[str]:
    """Parts of a list that commas separate, without those within brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text)]


def _default(field: "dataclasses.Field[Any]") -> str | None:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return None


def _escaped(text: str) -> str:
    """Text of a docstring as Markdown: code stays code, and other special characters are escaped."""
    parts = re.split(r"``(.*?)``", text)
    return "".join(f"`{part}`" if index % 2 else re.sub(r"([*_<])", r"\\\1", part) for index, part in enumerate(parts))
