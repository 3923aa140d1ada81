"""A reference of every kind with its options, read from the classes and their docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from fieldcraft.flows.spec.algorithm import AlgorithmSpec, Collocation, Component, ConstraintsSpec, Start
from fieldcraft.flows.spec.campaign_file import CampaignSpec, EmulatorSpec, FailureRate, Noise, Stop
from fieldcraft.flows.spec.conduct import Approval, Budget, Dispatch, WarmStart
from fieldcraft.flows.spec.levels import LevelSpec
from fieldcraft.flows.spec.registry import PACKAGES, available, load

KEYS = "keys"
"""The group of the parts of a campaign file."""
PARTS: Mapping[str, type[BaseModel]] = {
    "campaign": CampaignSpec,
    "levels": LevelSpec,
    "noise": Noise,
    "algorithm": AlgorithmSpec,
    "start": Start,
    "constraints": ConstraintsSpec,
    "collocation": Collocation,
    "emulator": EmulatorSpec,
    "warm_start": WarmStart,
    "approval": Approval,
    "dispatcher": Dispatch,
    "budget": Budget,
    "stop": Stop,
    "failure_rate": FailureRate,
}
"""The parts of a campaign file, each by the key under which it stands; the whole file first."""

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
_OURS = re.compile(r" \(``flows\.[^)]*\)")  # a module of ours, which no reader of the page looks for
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
    """A kind that a campaign file can name, or a part of the file.

    Args:
        group: Its group, a key of ``registry.PACKAGES`` or ``KEYS``.
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


def part_of(name: str) -> Kind:
    """Describe a part of a campaign file, a key of ``PARTS``."""
    cls = PARTS[name]
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        meanings |= dict(_meanings(inspect.cleandoc(vars(base).get("__doc__") or "")))
    told = tuple(_OURS.sub("", text) for text in _paragraphs(inspect.cleandoc(cls.__doc__ or "")))
    if cls is CampaignSpec:
        told = ("A campaign file has these keys. Those that hold a mapping have a part of their own.",)
    options = [
        Option(key, _plain(field.annotation), _left_out(field), meanings.get(key, ""))
        for key, field in cls.model_fields.items()
    ]
    return Kind(KEYS, name, told, tuple(options))


def kind_of(group: str, name: str, cls: type[Any]) -> Kind:
    """Describe the kind of a class; an option's meaning comes from the docstring of the class or its nearest base."""
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        meanings |= dict(_meanings(inspect.cleandoc(vars(base).get("__doc__") or "")))
    fields = [field for field in dataclasses.fields(cls) if field.init and field.name not in _NOT_IN_A_FILE]
    options = [Option(field.name, _type(field.type), _default(field), meanings.get(field.name, "")) for field in fields]
    return Kind(group, name, _paragraphs(inspect.cleandoc(cls.__doc__ or "")), tuple(options))


def page(given: Sequence[Kind]) -> str:
    """Write the parts of a campaign file and the kinds as Markdown: a heading for each, and a table of its options."""
    lines = [
        "# Kinds and their options",
        "",
        "The keys of a campaign file, then all that it can name, by the key under which it names it. `fieldcraft kinds",
        "--markdown` writes this page, with the kinds of your own plug-ins too.",
    ]
    group = ""
    for kind in (*map(part_of, PARTS), *given):
        if kind.group != group:
            group = kind.group
            place = f"{group} (`{PLACES[group]}: {{kind: ...}}`)" if group in PLACES else "The keys of a campaign file"
            lines += ["", f"## {place}"]
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


def _plain(annotation: Any) -> str:
    """Text of the type of a key of a campaign file, as a file has it: ``{kind: ...}``, a mapping, a list, a number."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain(parts[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_plain, parts))
    if origin is Literal:
        return " | ".join(map(repr, parts))
    if origin is tuple:
        return f"list of {_plain(parts[0])}" if parts[1] is ... else f"[{', '.join(map(_plain, parts))}]"
    if origin is dict:
        return f"{{NAME: {_plain(parts[1])}}}"
    if annotation is Component:
        return "{kind: ...}"
    named = {float: "number", int: "whole number", bool: "true | false", str: "text", type(None): "nothing"}
    return named.get(annotation, "mapping")


def _left_out(field: Any) -> str | None:
    """Text of the default of a key of a campaign file; None where it must be given."""
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Component):
        return f"{{kind: {value.kind}}}"
    if isinstance(value, BaseModel):
        return "its defaults"
    if value in (None, (), {}, ""):
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(annotation: Any) -> Any:
    """A type without the bounds of its values, which are no part of its text."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bare(parts[0])
    return origin[tuple(map(_bare, parts))] if origin is Mapping else annotation


def _type(annotation: Any) -> str:
    """Text of a type, the values of a Literal sorted: Python may give them in the order of an equal earlier type."""
    text = inspect.formatannotation(_bare(annotation))
    if union := re.fullmatch(r"(?:typing\.)?(Union|Optional)\[(.*)\]", text):
        text = " | ".join([*_split(union[2]), *(["None"] if union[1] == "Optional" else [])])
    text = re.sub(r"(?:typing\.)?Literal\[([^]]*)\]", lambda found: " | ".join(sorted(_split(found[1]))), text)
    return _QUALIFIED.sub("", text).replace("typing.", "").replace("NoneType", "None")


def _split(text: str) -> list[str]:
    """Parts of a list that commas separate, without those within brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text)]


def _default(field: "dataclasses.Field[Any]") -> str | None:
    if field.default is not dataclasses.MISSING:
        return _written(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return None


def _written(value: Any) -> str:
    """A default as a text; a part with options of its own as a mapping."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    return f"{{{', '.join(f'{each.name}: {getattr(value, each.name)!r}' for each in dataclasses.fields(value))}}}"


def _escaped(text: str) -> str:
    """Text of a docstring as Markdown: code stays code, and other special characters are escaped."""
    parts = re.split(r"``(.*?)``", text)
    return "".join(f"`{part}`" if index % 2 else re.sub(r"([*_<])", r"\\\1", part) for index, part in enumerate(parts))
