"""Checks of what a notebook's calls are given: one clear error for a value of another kind."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.tables import level
from fieldcraft.physics.space import SearchSpace


def count(what: str, given: Any) -> int:
    """A whole number of at least 1.

    Raises:
        InputError: it is none.
    """
    if not isinstance(given, Integral) or isinstance(given, bool) or given < 1:
        raise InputError(f"{what} is {given!r}: give a whole number of at least 1.")
    return int(given)


def mapping(what: str, given: Any) -> dict[str, Any]:
    """A mapping of names to values.

    Raises:
        InputError: it is none.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{what} is {given!r}: give a mapping of names to values.")
    return dict(given)


def plain(given: Any) -> Any:
    """A value as a campaign file would hold it: numpy's numbers and arrays within it as those of Python."""
    if isinstance(given, np.generic | np.ndarray):
        return given.tolist()
    if isinstance(given, Mapping):
        return {name: plain(value) for name, value in given.items()}
    if isinstance(given, list | tuple):
        return [plain(value) for value in given]
    return given


def folder(what: str, given: Any) -> Path:
    """Path of a folder.

    Raises:
        InputError: it is no path.
    """
    if not isinstance(given, str | Path):
        raise InputError(f"{what} is {given!r}: give the path of a folder.")
    return Path(given)


def names(what: str, given: Any) -> list[str]:
    """One name or several.

    Raises:
        InputError: it is neither.
    """
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise InputError(f"{what} is {wrong[0]!r}: give a name, or several.")
    return found


def as_run(space: SearchSpace, given: Any) -> dict[str, Any]:
    """Values of variables that were run otherwise; unknown names are left as they are.

    Raises:
        InputError: it is no mapping, or a value is none of its variable.
    """
    known = {variable.name: variable for variable in space.variables}
    return {
        name: level(known[name], str(value), f"tell: {name}") if name in known else value
        for name, value in mapping("tell: ran", given).items()
    }
