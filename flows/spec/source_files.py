"""Source files that a process would import for a problem, a simulator or a dispatcher, found without importing them.

A file's imports are read from its text, wherever they stand in it. Imports for type checking alone are left out. Two
sorts of modules are followed: those of fieldcraft under ``physics`` and ``flows/dispatchers``, and the operator's
helpers. A helper is a module or package beside a plug-in or between it and the plug-in directory. Packages of the
environment are not followed, nor imports by a name that is computed at run time.
"""

import ast
import hashlib
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldcraft import HOMES
from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.spec.plugin_files import BARE
from fieldcraft.flows.spec.registry import PACKAGES, available
from fieldcraft.storage.code import Code
from fieldcraft.storage.records import digest_of

_ROOT = Path(__file__).resolve().parents[2]
_FOLLOWED = ("physics/", "flows/dispatchers/")
_PLACES = tuple(f"{_ROOT / name}{os.sep}" for name in _FOLLOWED)
_OWN = "fieldcraft"  # what all our files together are called in brief
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # where a statement holds others
_held: dict[str, str] = {}  # our files as this process first saw them, by name
_texts: dict[Path, tuple[tuple[int, ...], bytes]] = {}  # what was read of a file, and its state then
_codes: dict[tuple[tuple[Path, Path], ...], tuple[tuple[tuple[Path, bytes], ...], Code]] = {}  # by where they begin
_AT_REST_S = 3.0  # since the last change; one that follows sooner may leave a file's times as they are

# Leading dots, the names after them, and what is taken from there.
_Import = tuple[int, tuple[str, ...], tuple[str, ...]]


class NotApproved(Exception):
    """The code here is not the approved code, or cannot be loaded, and nothing has run; the message says which."""


@dataclass(frozen=True)
class Sources:
    """Source files at one moment: each is read once.

    Args:
        plugins: The operator's directories of plug-ins, in their order.
    """

    plugins: Sequence[Path]
    _read: dict[Path, bytes] = field(default_factory=dict, repr=False)

    def of(self, kinds: Mapping[str, str], programs: Mapping[str, Path]) -> Code:
        """Digests of the source files of some kinds, and of programs.

        Args:
            kinds: Kinds by group, such as ``{"problems": "heat"}``.
            programs: Executables by their names in the result; one that cannot be read is left out.

        Raises:
            InputError: there is no such kind, or a file cannot be read.
        """
        begun = tuple(self._root(available(group, self.plugins), kind, group) for group, kind in kinds.items())
        code = self._code(begun)
        if not programs:
            return code
        digests = {name: digest_of_program(file) for name, file in programs.items()}
        files = {**code.files, **{name: digest for name, digest in digests.items() if digest is not None}}
        return Code(files=dict(sorted(files.items())))

    def of_plugins(self, kinds: Collection[str]) -> dict[str, str]:
        """Digests, by name, of the operator's files that hold one of these kinds, and of what these import.

        Raises:
            InputError: a file cannot be read.
        """
        found = dict[str, str]()
        for group in PACKAGES:
            for kind in (available(group, self.plugins).keys() - available(group).keys()) & set(kinds):
                found |= brief(self.of({group: kind}, {}))
        return {name: digest for name, digest in found.items() if name != _OWN}

    def _code(self, begun: tuple[tuple[Path, Path], ...]) -> Code:
        """Digests of files and of all that they import, known as long as they are ours and no text of them changes.

        Args:
            begun: Each file after the directory that it is searched from.
        """
        if (known := _codes.get(begun)) and all(self._text(file) is text for file, text in known[0]):
            return known[1]
        found = self._found(list(begun))
        names = _names(tuple(found.items()), tuple(self.plugins))
        code = Code(files={name: _sha256(self._text(file)) for file, name in names.items()})
        if all(root == _ROOT for root in found.values()):
            _codes[begun] = tuple((file, self._text(file)) for file in found), code
        return code

    def _found(self, begun: list[tuple[Path, Path]]) -> dict[Path, Path]:
        """Files and all that they import, each with the directory that it is searched from."""
        found = dict[Path, Path]()
        while begun:
            root, file = begun.pop()
            if file not in found:
                found[file] = root
                if root == _ROOT:
                    begun += [(_ROOT, one) for one in _with_ours(file, self._text(file))]
                else:
                    begun += self._imported(root, file)
        return found

    def _root(self, known: Mapping[str, Path], kind: str, group: str) -> tuple[Path, Path]:
        if kind not in known:
            raise InputError(
                f"No kind {kind!r} in {group} here: set FIELDCRAFT_PLUGINS to the directory that has {group}/{kind}.py."
            )
        file = known[kind]
        return next((plugin for plugin in self.plugins if file.is_relative_to(plugin)), _ROOT), file

    def _imported(self, root: Path, file: Path) -> Iterator[tuple[Path, Path]]:
        """Files that a file of the operator's imports, each with the directory that it is searched from."""
        for dots, names, taken in _imports(self._text(file)):
            if not dots and names[0] == "fieldcraft":
                yield from ((_ROOT, one) for one in _of_ours(names[1:], taken))
            elif (folder := _folder(root, file, dots, (*names, *taken)[:1])) is not None:
                yield from ((root, one) for one in _loaded(folder, names, taken))
            elif not dots and names[0] in BARE:
                yield from ((_ROOT, one) for one in _of_ours(names, taken))

    def _text(self, file: Path) -> bytes:
        if file not in self._read:
            try:
                self._read[file] = _content(file)
            except OSError as error:
                problem = error.strerror or str(error)
                raise InputError(f"{file}: cannot be read ({problem}). Check the file and your rights to it.") from None
        return self._read[file]


def _content(file: Path) -> bytes:
    """Content of a file, which is read again only where its state says that it was changed since.

    The file is opened each time, so that a network file system shows its present state, and no program can set back the
    time of the last change of that state (``st_ctime``).
    """
    descriptor = os.open(file, os.O_RDONLY)
    try:
        about = os.fstat(descriptor)
        state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        known = _texts.get(file)
        if known is not None and known[0] == state:
            return known[1]
        with open(descriptor, "rb", closefd=False) as opened:
            text = opened.read()
    finally:
        os.close(descriptor)
    if time.time() - about.st_ctime > _AT_REST_S:
        _texts[file] = state, text
    return text


@lru_cache(maxsize=64)
def _names(found: tuple[tuple[Path, Path], ...], plugins: tuple[Path, ...]) -> dict[Path, str]:
    """Names of files within their directories, in order of the names; equal names get the number of the directory."""
    names = {file: file.relative_to(root).as_posix() for file, root in found}
    often, roots = Counter(names.values()), dict(found)
    numbers = {root: number for number, root in enumerate(plugins, 1)}
    whole = {file: n if often[n] == 1 else f"{n} ({numbers.get(roots[file], 0)})" for file, n in names.items()}
    return dict(sorted(whole.items(), key=lambda each: each[1]))


@lru_cache(maxsize=1024)
def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def brief(code: Code) -> dict[str, str]:
    """Digests of source files by name, those of fieldcraft as one, for the request of a job."""
    own = {name: digest for name, digest in code.files.items() if _is_own(name)}
    others = {name: digest for name, digest in code.files.items() if name not in own}
    return {**others, **({_OWN: digest_of(own)} if own else {})}


def require_approved(request: Mapping[str, Any], plugins: Sequence[Path]) -> None:
    """Accept the request of a job if the code that this process would import or start for it is the approved code.

    Raises:
        NotApproved: the code differs.
        InputError: there is no such kind here, or a file cannot be read.
    """
    told: Mapping[str, str] | None = request.get("code")
    if told is None:  # sent by a version whose approvals did not cover it
        return
    program = request.get("program")
    kinds = {} if program else {f"{part}s": request[part]["kind"] for part in ("problem", "simulator")}
    programs = {name: Path(program["argv"][0]) for name in told} if program else {}
    found = brief(Sources(plugins).of(kinds, programs))
    if changed := [name for name in sorted({*told, *found}) if told.get(name) != found.get(name)]:
        raise NotApproved(
            f"{', '.join(changed)} is not what was approved: it was changed since, or differs on {socket.gethostname()}"
        )


def require_held(code: Code) -> None:
    """Accept files of fieldcraft that are as this process first saw them; the operator's plug-ins are imported anew.

    Raises:
        FieldcraftError: one of them was changed since then.
    """
    for name, digest in code.files.items():
        if _is_own(name) and _held.setdefault(name, digest) != digest:
            raise FieldcraftError(
                f"{name} has changed since this process began, which still runs what it was then. Nothing is lost: "
                "run again."
            )


def _is_own(name: str) -> bool:
    return name.startswith(_FOLLOWED)


def _of_ours(names: Sequence[str], taken: Sequence[str]) -> list[Path]:
    """Files to follow that run when names of the package fieldcraft, or of a module of it, are imported."""
    if names:
        found = _loaded(_ROOT, names, taken)
    else:
        found = [file for name in taken for file in _located(_ROOT, HOMES.get(name, name).split("."))]
    return [file for file in found if _follows(file)]


@lru_cache(maxsize=1024)
def _with_ours(file: Path, text: bytes) -> tuple[Path, ...]:
    """Files to follow that run when a file of fieldcraft with this text is imported; they last as long as it does."""
    found = list(_packages(file))
    for dots, names, taken in _imports(text):
        if not dots and names[0] == "fieldcraft":
            found += _of_ours(names[1:], taken)
        elif dots and (folder := _folder(_ROOT, file, dots, (*names, *taken)[:1])) is not None:
            found += _loaded(folder, names, taken)
    return tuple(found)


def _follows(file: Path) -> bool:
    return str(file).startswith(_PLACES)


def _packages(file: Path) -> Iterator[Path]:
    """Packages of fieldcraft whose files run when a file of fieldcraft is imported."""
    package = file.parent / "__init__.py"
    while _follows(package):
        if package.is_file():
            yield package
        package = package.parent.parent / "__init__.py"


def _folder(root: Path, file: Path, dots: int, first: Sequence[str]) -> Path | None:
    """Folder in which the first name of an import is looked for; None where it is no helper of the directory."""
    above = [folder for folder in file.parents if folder.is_relative_to(root)]
    if dots:
        return above[dots - 1] if dots <= len(above) else None
    if first[0] in sys.stdlib_module_names:
        return None
    with_file = (folder for folder in above if any(True for _ in _located(folder, first)))
    with_folder = (folder for folder in above if (folder / first[0]).is_dir())  # whose modules have no package file
    return next(with_file, None) or next(with_folder, None)


def _loaded(folder: Path, names: Sequence[str], taken: Sequence[str]) -> list[Path]:
    """Files that ``import NAMES``, or ``from NAMES import TAKEN``, loads, starting from a folder."""
    files = list(_located(folder, names))
    if files and files[-1].name != "__init__.py":
        return files  # what is taken stands in a module
    return files + [file for name in taken for file in _located(folder, (*names, name))]


def _located(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Files that run when a dotted name is imported, starting from a folder: its packages and the module."""
    for name in names:
        if (package := folder / name / "__init__.py").is_file():
            yield package
        elif (module := folder / f"{name}.py").is_file():
            yield module
            return
        elif not (folder / name).is_dir():
            return
        folder = folder / name


@lru_cache(maxsize=1024)
def _imports(text: bytes) -> tuple[_Import, ...]:
    """Imports in a file's text; none where it is not Python, which is reported when it is loaded."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found, left = list[_Import](), list[ast.AST]([tree])
    while left:
        node = left.pop()
        found += _of_statement(node)
        blocks = ("orelse",) if _is_for_types(node) else _BLOCKS
        left += [inner for block in blocks for inner in getattr(node, block, ())]
    return tuple(dict.fromkeys(found))


def _of_statement(node: ast.AST) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        yield from ((0, tuple(alias.name.split(".")), ()) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = tuple(node.module.split(".")) if node.module else ()
        yield node.level, module, tuple(alias.name for alias in node.names)


def _is_for_types(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def digest_of_program(file: Path) -> str | None:
    """SHA-256 of an executable; None where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None
