"""Files of the operator's plug-in directories, loaded by path as modules of a private package.

The directory ``mine`` is the package ``_fieldcraft_plugin_<digest of its path>``. Its file ``problems/rod.py`` is the
module ``problems.rod`` of that package. Such a file may import a helper, a module or a package beside it or in the
directory itself, as ``import helper`` or ``from . import helper``. The helper becomes a module of the same private
package, so its name collides with no other plug-in directory. Where a module of Python, of an installed package or of
fieldcraft has the name, ``import`` means that one. A file that has changed is loaded anew.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_PREFIX = "_fieldcraft_plugin_"
BARE = ("physics", "models", "storage", "flows")  # names that plug-ins of earlier versions import ours by
_MODULES = {"models.peer": "models.rival"}  # of ours, as earlier versions named them
_METHODS = {"believe": "fantasize"}
_LOCK = threading.RLock()
_sources: dict[str, dict[Path, bytes]] = {}  # by package: SHA-256 of each file that was loaded


def module_of(file: Path) -> ModuleType:
    """Import a file DIRECTORY/GROUP/KIND.py; load it anew if it or a helper of its directory has changed.

    Raises:
        Exception: any error that the file or a helper raises.
    """
    directory = file.parent.parent
    package = _PREFIX + hashlib.sha256(str(directory).encode()).hexdigest()[:12]
    with _LOCK:
        if any(_digest(known) != digest for known, digest in _sources.get(package, {}).items()):
            _forget(package)
        group = f"{package}.{file.parent.name}"
        _folder(package, directory)
        _folder(group, file.parent)
        return importlib.import_module(f"{group}.{file.stem}")


def is_plugin(module: str) -> bool:
    """True if a module of this name is a file of a plug-in directory."""
    return module.startswith(_PREFIX)


def line_of(error: BaseException) -> str | None:
    """Last line of a plug-in's file in the traceback of an error, ``FILE, line N``; None where there is none."""
    files = {str(file) for known in _sources.values() for file in known}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else None


def _folder(name: str, folder: Path) -> None:
    """Register a folder as a package without code of its own."""
    if name not in sys.modules:
        made = ModuleType(name)
        made.__path__ = [str(folder)]
        sys.modules[name] = made


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    del _sources[package]


def _digest(file: Path) -> bytes:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return b""


class _Finder(MetaPathFinder):
    """Finder of the modules of the private packages."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(_PREFIX) or path is None:
            return None
        for folder in path:
            if (file := _file_of(Path(folder), name.rpartition(".")[2])) is not None:
                return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, str(file)))
        return None


def _file_of(folder: Path, name: str) -> Path | None:
    candidates = (folder / name / "__init__.py", folder / f"{name}.py")
    return next((file for file in candidates if file.is_file()), None)


class _Loader(SourceFileLoader):
    """Loader of a file of a plug-in directory, whose helpers come from the private package; caches no bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        source, package = self.get_data(self.path), fullname.partition(".")[0]
        _sources.setdefault(package, {})[Path(self.path)] = hashlib.sha256(source).digest()
        root = Path(sys.modules[package].__path__[0])
        tree = _Imports(package, root, Path(self.path)).visit(ast.parse(source, self.path))
        code: CodeType = self.source_to_code(ast.fix_missing_locations(tree), self.path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        """Run the file; what it prints goes to standard error, since a command's answer is on standard output."""
        with redirect_stdout(sys.stderr):
            super().exec_module(module)


class _Imports(ast.NodeTransformer):
    """Rewriting of a file's imports, so that helpers come from the private package.

    Args:
        package: The private package.
        root: The plug-in directory.
        file: File that is rewritten.
    """

    def __init__(self, package: str, root: Path, file: Path) -> None:
        self.package, self.root, self.file = package, root, file

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Give a method that earlier versions called otherwise its name of today too."""
        self.generic_visit(node)
        own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        for earlier, now in _METHODS.items():
            if earlier in own and now not in own:
                alias = ast.Assign([ast.Name(now, ast.Store())], ast.Name(earlier, ast.Load()))
                node.body.append(ast.copy_location(alias, node))
        return node

    def visit_Import(self, node: ast.Import) -> Any:
        made = [line for alias in node.names for line in self._lines(alias)]
        return [ast.copy_location(line, node) for line in made]

    def _lines(self, alias: ast.alias) -> Iterator[ast.stmt]:
        top, *rest = alias.name.split(".")
        home = self._home(top)
        if home is None:
            yield ast.Import([alias])
        elif alias.asname or not rest:
            parent, _, last = f"{home}.{alias.name}".rpartition(".")
            yield ast.ImportFrom(parent, [ast.alias(last, alias.asname or top)], 0)
        else:  # binds the first name alone, and has the whole loaded
            yield ast.Import([ast.alias(f"{home}.{alias.name}", "_fieldcraft_loaded")])
            yield ast.ImportFrom(home, [ast.alias(top)], 0)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        home = self._home(node.module.partition(".")[0]) if node.level == 0 and node.module else None
        if home is None:
            return node
        module = _MODULES.get(str(node.module), node.module) if home == "fieldcraft" else node.module
        return ast.copy_location(ast.ImportFrom(f"{home}.{module}", node.names, 0), node)

    def _home(self, name: str) -> str | None:
        """Package to import a name from: the private one for a helper, or fieldcraft; None for any other module."""
        for folder in (self.file.parent, *self.file.parent.parents):
            if not folder.is_relative_to(self.root):
                break
            if (file := _file_of(folder, name)) is not None:
                parts = folder.relative_to(self.root).parts
                return None if _taken(name, file) else ".".join((self.package, *parts))
        return "fieldcraft" if name in BARE else None


def _taken(name: str, helper: Path) -> bool:
    """True if a name can be imported anyway: not as the helper, nor from the working directory."""
    if name in BARE or name in sys.stdlib_module_names:
        return name not in BARE
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return False
    origin = Path(found.origin).resolve()
    return origin != helper.resolve() and Path.cwd() not in origin.parents[:2]


sys.meta_path.insert(0, _Finder())  # before the one that would find the file as it is
