"""The directory is the registry: kind ``heat`` of group ``problems`` is ``physics/problems/heat.py``.

Each file holds one public frozen dataclass. The operator's directories (``FIELDCRAFT_PLUGINS``) may hold the same
folders (``problems/``, ``simulators/``, ...); their files are loaded by path under a private module name.
"""

import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from flows.errors import InputError

PACKAGES = {
    "problems": "physics.problems",
    "simulators": "physics.simulators",
    "surrogates": "models.surrogates",
    "acquisitions": "models.acquisitions",
    "maximizers": "models.maximizers",
    "proposers": "models.proposers",
    "rules": "models.rules",
    "peers": "models.peers",
    "sentences": "models.sentences",
    "dispatchers": "flows.dispatchers",
}
_KIND = re.compile(r"[a-z][a-z0-9_]*")
_MOST_FAULTS = 10  # that one error tells of
_ROOT = Path(__file__).resolve().parent.parent


def available(group: str, plugins: Sequence[Path] = ()) -> dict[str, Path]:
    """Kinds of a group and the file of each, built-in ones first; lists directories and imports nothing.

    Raises:
        InputError: two files bear the same kind.
    """
    found: dict[str, Path] = {}
    for folder in (_ROOT / PACKAGES[group].replace(".", "/"), *(plugin / group for plugin in plugins)):
        for file in sorted(folder.glob("*.py")):
            if not _KIND.fullmatch(file.stem):
                continue
            if file.stem in found:
                raise InputError(f"Kind {file.stem!r} exists twice: {found[file.stem]} and {file}. Rename yours.")
            found[file.stem] = file
    return found


def load(group: str, kind: str, plugins: Sequence[Path] = ()) -> type[Any]:
    """The class of a kind.

    Raises:
        InputError: no such kind, or its file cannot be loaded or does not hold one public frozen dataclass.
    """
    known = available(group, plugins)
    if kind not in known:
        raise InputError(
            f"No kind {kind!r} in {group}.{suggestion(kind, known)} Known: {', '.join(sorted(known))}. "
            f"To add one, write {group}/{kind}.py in a directory that FIELDCRAFT_PLUGINS lists."
        )
    module = _module(PACKAGES[group], known[kind])
    public = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if len(public) != 1 or not _is_frozen(public[0]):
        raise InputError(
            f"{known[kind]} holds {', '.join(c.__name__ for c in public) or 'no public class'}: it must hold exactly "
            "one public frozen dataclass; begin the names of the others with an underscore."
        )
    return public[0]


def build(
    group: str,
    component: Mapping[str, Any],
    plugins: Sequence[Path] = (),
    where: str = "",
    *,
    given: Mapping[str, Any] | None = None,
    beside: Sequence[str] = (),
) -> Any:
    """The component that ``{kind: ..., option: ...}`` describes, validated.

    Args:
        group: What kinds it is one of.
        component: Its kind and options.
        plugins: Directories searched for kinds beside the built-in ones.
        where: Its place in the file, for errors.
        given: Fields that the caller sets and no file can.
        beside: Keys of the same place that are no options, for suggestions.

    Raises:
        InputError: unknown kind, misspelt option, or a value that the component refuses; ``where`` is named.
    """
    given = given or {}
    options = {key: value for key, value in component.items() if key != "kind"}
    cls = load(group, str(component.get("kind")), plugins)
    if taken := sorted(given.keys() & options.keys()):
        raise InputError(f"{where}.{taken[0]}: unknown key {taken[0]!r}. Remove it.")
    if "__pydantic_config__" not in vars(cls):
        cls.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    try:
        made = TypeAdapter(cls).validate_python({**given, **options})
    except ValidationError as error:
        names = [*beside, *(name for name in _fields(cls) if name not in given)]
        raise InputError(explain(error, where, lambda place: _keys(cls, place) if place else names)) from None
    for name, value in options.items():
        if isinstance(value, bool) and not isinstance(getattr(made, name), bool):
            raise InputError(f"{where}.{name}: {value} is no number. Give one, or quote a word that is meant.")
    return made


def options_of(kind: str, component: Any) -> dict[str, Any]:
    """The component as data again, every default written out: ``{kind: ..., option: ...}``."""
    return {"kind": kind, **{name: _data(getattr(component, name)) for name in _fields(type(component))}}


def _data(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _fields(cls: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _keys(cls: type[Any], place: Sequence[int | str]) -> list[str]:
    """The options of an option, in a place within a component; none where it has none."""
    for part in place:
        types = [field.type for field in dataclasses.fields(cls) if field.name == part]
        parts = [each for kind in types for each in (kind, *get_args(kind)) if dataclasses.is_dataclass(each)]
        if not parts:
            return []
        cls = parts[0] if isinstance(parts[0], type) else type(parts[0])
    return _fields(cls)


def explain(error: ValidationError, where: str, known: Callable[[tuple[int | str, ...]], Sequence[str]]) -> str:
    """One line for what pydantic found, at most ``_MOST_FAULTS`` of it: place, value, problem, nearest key that exists.

    Args:
        error: What it found.
        where: What stands before every place.
        known: The keys that exist in a place.
    """
    lines = []
    for fault in error.errors()[:_MOST_FAULTS]:
        path = ".".join(str(part) for part in (*([where] if where else ()), *fault["loc"]))
        if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            wrong = str(fault["loc"][-1])
            keys = known(fault["loc"][:-1])
            hint = suggestion(wrong, keys) or (f" Known: {', '.join(keys)}." if keys else " Remove it.")
            lines.append(f"{path}: unknown key {wrong!r}.{hint}")
        elif fault["type"] in ("missing", "missing_argument"):
            lines.append(f"{path}: missing. Give it.")
        else:
            message = fault["msg"].removeprefix("Value error, ")
            value = "" if isinstance(fault["input"], dict) else f" (given: {fault['input']!r:.200})"
            lines.append(f"{path}: {message}{value}" if path else f"{message}{value}")
    more = error.error_count() - len(lines)
    return " ".join([*lines, f"And {more} more."] if more else lines)


def suggestion(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """A sentence naming the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _is_frozen(cls: type[Any]) -> bool:
    own = vars(cls).get("__dataclass_params__")  # of the class itself: a plain subclass of a dataclass has none
    return own is not None and bool(own.frozen)


class _Loader(SourceFileLoader):
    """Loads a text that was read, and nothing that was compiled before of a file of the same second and size."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.text, self.path)


def _module(package: str, file: Path) -> ModuleType:
    if file.parent == _ROOT / package.replace(".", "/"):
        return importlib.import_module(f"{package}.{file.stem}")
    # A private name, so that a user's own models.py never meets ours and two plug-in directories never meet.
    name = f"_fieldcraft_plugin_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    text = file.read_bytes()
    if name in sys.modules and getattr(sys.modules[name].__loader__, "text", None) == text:
        return sys.modules[name]
    loader = _Loader(name, str(file), text)
    found = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert found is not None  # the file exists and ends in .py
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises is one clear error
        del sys.modules[name]
        raise InputError(f"{file} cannot be loaded: {type(error).__name__}: {error}. Mend the file.") from error
    return module
