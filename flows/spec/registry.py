"""The directory is the registry: kind ``heat`` of group ``problems`` is ``physics/problems/heat.py``.

Each file holds one public frozen dataclass. The operator's directories (``FIELDCRAFT_PLUGINS``) may hold the same
folders (``problems/``, ``simulators/``, ...). ``flows.spec.plugin_files`` loads their files and
``flows.spec.contracts`` checks them.
"""

import dataclasses
import importlib
import inspect
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fieldcraft.flows.errors import InputError, at
from fieldcraft.flows.spec.base import faults_of, is_number
from fieldcraft.flows.spec.contracts import asked, require_problem, require_whole
from fieldcraft.flows.spec.plugin_files import line_of, module_of
from fieldcraft.flows.text import QUOTED, quoted, shown
from fieldcraft.flows.text import suggestion as suggestion

PACKAGES = {
    "problems": "fieldcraft.physics.problems",
    "simulators": "fieldcraft.physics.simulators",
    "surrogates": "fieldcraft.models.surrogates",
    "acquisitions": "fieldcraft.models.acquisitions",
    "maximizers": "fieldcraft.models.maximizers",
    "proposers": "fieldcraft.models.proposers",
    "rules": "fieldcraft.models.rules",
    "rivals": "fieldcraft.models.rivals",
    "algorithms": "fieldcraft.models.algorithms",
    "dispatchers": "fieldcraft.flows.dispatchers",
}
_EARLIER = {"rivals": "peers", "algorithms": "sentences"}  # folders of plug-ins as earlier versions named them
_KIND = re.compile(r"[a-z][a-z0-9_]*")
_ROOT = Path(__file__).resolve().parents[2]


def folder_of(group: str) -> Path:
    """Folder of the built-in kinds of a group."""
    return _ROOT.joinpath(*PACKAGES[group].split(".")[1:])


def available(group: str, plugins: Sequence[Path] = ()) -> dict[str, Path]:
    """Kinds of a group and the file of each, built-in ones first; lists directories and imports nothing.

    Where two plug-in directories hold a file of the same name, which may be a helper, the first one has the kind.

    Raises:
        InputError: a file of a plug-in directory has the name of a built-in kind.
    """
    ours = _built_in(group)
    found = dict(ours)
    for folder in _folders(group, plugins):
        for kind, file in _kinds(folder):
            if kind in ours:
                raise _twice(kind, ours[kind], file)
            found.setdefault(kind, file)
    return found


@cache
def _built_in(group: str) -> dict[str, Path]:
    return dict(_kinds(folder_of(group)))


def _kinds(folder: Path) -> Iterator[tuple[str, Path]]:
    return ((file.stem, file) for file in sorted(folder.glob("*.py")) if _KIND.fullmatch(file.stem))


def _named(folder: Path, kind: str) -> Iterator[Path]:
    """A file of that name which is no kind."""
    return (file for file in sorted(folder.glob("*.py")) if file.stem == kind and not _KIND.fullmatch(file.stem))


def _folders(group: str, plugins: Sequence[Path]) -> list[Path]:
    """Folders of the operator's directories that may hold kinds of a group."""
    names = [group, *([_EARLIER[group]] if group in _EARLIER else [])]
    return [plugin / name for plugin in plugins for name in names]


def _twice(kind: str, one: Path, other: Path) -> InputError:
    return InputError(f"Kind {kind!r} exists twice: {one} and {other}. Rename yours.")


def load(group: str, kind: str, plugins: Sequence[Path] = (), also: Collection[str] = ()) -> type[Any]:
    """Load the class of a kind.

    Args:
        group: Group of the kind, a key of ``PACKAGES``.
        kind: Name of the kind.
        plugins: Directories searched for kinds beside the built-in ones.
        also: Further names that are valid in the same place, for suggestions.

    Raises:
        InputError: no such kind, or two of the name; or its file cannot be loaded or does not hold one public frozen
            dataclass.
    """
    known = available(group, plugins)
    if kind not in known:
        if (there := _unlisted(group, kind)) is not None:
            folder = ":".join([*map(str, plugins), str(there)])
            raise InputError(
                f"No kind {quoted(kind)} in {group}. {there}/{group}/{kind}.py is there, and FIELDCRAFT_PLUGINS "
                f"{'lists other directories alone' if plugins else 'is not set in this shell'}: "
                f"export FIELDCRAFT_PLUGINS={shlex.quote(folder)}"
            )
        if (
            strange := next((file for folder in _folders(group, plugins) for file in _named(folder, kind)), None)
        ) is not None:
            raise InputError(
                f"No kind {quoted(kind)} in {group}. {strange} is there, but the name of a kind has small letters "
                f"a to z, digits and _ alone: rename the file, as {re.sub('[^a-z0-9_]', '_', kind.lower())}.py."
            )
        new = f"{group}/{kind}.py" if _KIND.fullmatch(kind[:QUOTED]) else f"a file of its name into {group}/"
        raise InputError(
            f"No kind {quoted(kind)} in {group}.{suggestion(kind, [*known, *also])} "
            f"Known: {', '.join(sorted({*known, *also}))}. "
            f"To add one, write {shown(new)} in a directory that FIELDCRAFT_PLUGINS lists"
            f"{'' if plugins else ', which lists none now'}."
        )
    held = [file for folder in _folders(group, plugins) if (file := folder / f"{kind}.py").is_file()]
    if len(held) > 1:
        raise _twice(kind, *held[:2])
    module = _module(group, known[kind])
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


def _unlisted(group: str, kind: str) -> Path | None:
    """A directory in the present one that holds a file of this kind, but is not searched."""
    if len(kind) > QUOTED or not _KIND.fullmatch(kind):
        return None
    return next((file.absolute().parents[1] for file in sorted(Path().glob(f"*/{group}/{kind}.py"))), None)


def build(
    group: str,
    component: Mapping[str, Any],
    plugins: Sequence[Path] = (),
    where: str = "",
    *,
    given: Mapping[str, Any] | None = None,
    beside: Sequence[str] = (),
    also: Collection[str] = (),
) -> Any:
    """Build the component that ``{kind: ..., option: ...}`` describes, validated.

    Args:
        group: Group of its kind, a key of ``PACKAGES``.
        component: Its kind and options.
        plugins: Directories searched for kinds beside the built-in ones.
        where: Its place in the file, for errors.
        given: Fields that the caller sets and a file cannot.
        beside: Keys of the same place that are no options, for suggestions.
        also: Further names that are valid in the place of the kind, for suggestions.

    Raises:
        InputError: unknown kind, misspelt option, or a value that the component refuses; ``where`` is named.
    """
    made = made_of(_class(group, component.get("kind"), plugins, where, also), component, where, given or {}, beside)
    if group == "problems":
        with at(where):
            require_problem(made)
    return made


def made_of(
    cls: type[Any], component: Mapping[str, Any], where: str, given: Mapping[str, Any], beside: Sequence[str]
) -> Any:
    """Build a component of this class, with the arguments and errors of ``build``."""
    options = {key: value for key, value in component.items() if key != "kind"}
    if taken := sorted(given.keys() & options.keys()):
        raise InputError(f"{where}.{taken[0]}: unknown key {taken[0]!r}. Remove it.")
    try:
        with at(where), asked(cls, "be made of these options"):
            made = _strict(cls).validate_python({**given, **options})
    except ValidationError as error:
        names = [*beside, *(name for name in _fields(cls) if name not in given)]
        known = {**given, **options}
        raise InputError(*faults_of(error, where, lambda place: _keys(cls, place) if place else names, known)) from None
    faults = [
        fault for name, value in options.items() for fault in _unlike(f"{where}.{name}", value, getattr(made, name))
    ]
    if faults:
        raise InputError(*faults)
    return made


def _strict(cls: type[Any]) -> TypeAdapter[Any]:
    """A maker of instances that refuses unknown keys, NaN and infinity; a class keeps its own."""
    if "__fieldcraft_made_by__" not in vars(cls):
        if "__pydantic_config__" not in vars(cls):
            cls.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
        cls.__fieldcraft_made_by__ = TypeAdapter(cls)
    return cast("TypeAdapter[Any]", vars(cls)["__fieldcraft_made_by__"])


def _class(group: str, kind: object, plugins: Sequence[Path], where: str, also: Collection[str]) -> type[Any]:
    with at(f"{where}.kind" if where else ""):
        cls = load(group, str(kind), plugins, also)
    with at(where):
        require_whole(group, cls)
    return cls


def _unlike(place: str, given: object, made: object) -> Iterator[str]:
    """Faults of values that were converted to numbers: true and false, and numbers within quotes."""
    if isinstance(given, Mapping) and dataclasses.is_dataclass(made):
        made = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    if isinstance(given, Mapping) and isinstance(made, Mapping):
        for key in given.keys() & made.keys():
            yield from _unlike(f"{place}.{key}", given[key], made[key])
    elif isinstance(given, list | tuple) and isinstance(made, list | tuple):
        for index, (one, other) in enumerate(zip(given, made, strict=False)):
            yield from _unlike(f"{place}.{index}", one, other)
    elif isinstance(made, int | float) and not isinstance(made, bool):
        if isinstance(given, bool):
            yield f"{place}: {given} is no number. Give one, or quote a word that is meant."
        elif isinstance(given, str) and is_number(given):
            yield f"{place}: {quoted(given)} is text. Take the quotes off."


def options_of(kind: str, component: Any) -> dict[str, Any]:
    """The component as data, with every default written out: ``{kind: ..., option: ...}``.

    Options that earlier versions did not know are left out while they have their default, so that digests stay: those
    of dataclass fields with the metadata ``left_out``.
    """
    return {"kind": kind, **_options(component)}


def _options(part: Any) -> dict[str, Any]:
    return {
        field.name: _data(value)
        for field in dataclasses.fields(part)
        if field.init
        and not ((value := getattr(part, field.name)) == _default(field) and field.metadata.get("left_out"))
    }


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _data(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_data, value))
    return _options(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _fields(cls: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _keys(cls: type[Any], place: Sequence[int | str]) -> list[str]:
    """Names of the options in a place within a component; an empty list where an option has none of its own."""
    for part in (each for each in place if isinstance(each, str)):  # numbers are places in a list
        types = [field.type for field in dataclasses.fields(cls) if field.name == part]
        parts = [each for kind in types for each in (kind, *get_args(kind)) if dataclasses.is_dataclass(each)]
        if not parts:
            return []
        cls = parts[0] if isinstance(parts[0], type) else type(parts[0])
    return _fields(cls)


def _is_frozen(cls: type[Any]) -> bool:
    own = vars(cls).get("__dataclass_params__")  # of the class itself: a plain subclass of a dataclass has none
    return own is not None and bool(own.frozen)


def _module(group: str, file: Path) -> ModuleType:
    if file.parent == folder_of(group):
        return importlib.import_module(f"{PACKAGES[group]}.{file.stem}")
    try:
        return module_of(file)
    except (Exception, SystemExit) as error:  # whatever a user's file raises is one clear error
        line = f" ({place})" if (place := line_of(error)) else ""
        raise InputError(f"{file} cannot be loaded: {type(error).__name__}: {error}{line}. Mend the file.") from error
