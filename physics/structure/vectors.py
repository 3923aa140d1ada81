"""Vectors: several variables of the same kind under one name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fieldcraft.physics.structure.categories import Categorical
from fieldcraft.physics.variables import Continuous, Integer, SpaceError

MOST = 1000
"""Components of a vector beyond which it is a slip, or an image."""

_Component = TypeVar("_Component", bound=Continuous | Integer | Categorical)
_Value = TypeVar("_Value")


def vector(variable: _Component, size: int) -> tuple[_Component, ...]:
    """The components of a vector, ``name[0]``, ``name[1]``, ...: copies of a variable that differ in their names.

    Args:
        variable: One component, with the name of the vector.
        size: Number of components, from 1 to 1000.

    Raises:
        SpaceError: a size out of range.
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST:
        raise SpaceError(f"The size of the vector {variable.name} is {size!r}: give a whole number from 1 to {MOST}.")
    return tuple(replace(variable, name=component(variable.name, k)) for k in range(size))


def component(name: str, k: int) -> str:
    """Name of component k = 0, 1, ... of a vector."""
    return f"{name}[{k}]"


def components(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names of the components of a vector among ``names``, in order; empty where there is no such vector.

    A variable of that very name goes before a vector.
    """
    known = set(names)
    found: list[str] = []
    if name in known:
        return ()
    while (each := component(name, len(found))) in known:
        found.append(each)
    return tuple(found)


def spread(names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Names with each vector's name replaced by those of its components."""
    all_known = tuple(known)
    return tuple(each for name in names for each in (components(name, all_known) or (name,)))


def spread_values(values: Mapping[str, _Value], known: Iterable[str]) -> dict[str, _Value]:
    """Values by variable, that of a vector given to each of its components.

    Raises:
        SpaceError: a component has a value of its own beside that of its vector.
    """
    all_known, found = tuple(known), dict[str, _Value]()
    for name, value in values.items():
        for each in spread((name,), all_known):
            if each in found:
                vector_name = each.rpartition("[")[0]
                raise SpaceError(
                    f"{each} is named by itself and in the vector {vector_name}: name each of its components, or the "
                    "vector alone."
                )
            found[each] = value
    return found
