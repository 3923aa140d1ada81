"""The designs of a space that has few of them."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from fieldcraft.physics.space import Design, SearchSpace, SpaceError, Variable
from fieldcraft.physics.structure.categories import Categorical
from fieldcraft.physics.variables import Integer

MOST = 10_000
"""Combinations of levels beyond which nobody counts: no campaign comes to the end of them."""


@lru_cache(maxsize=16)
def designs_of(space: SearchSpace) -> tuple[Design, ...] | None:
    """All designs of a space, in the order of its variables' levels.

    Where several stand for one, as exchanged ones do, it is there once. Returns None if a variable is continuous, or if
    the levels have more than ``MOST`` combinations.
    """
    levels = [_levels(variable) for variable in space.variables]
    if math.prod(len(each) or MOST + 1 for each in levels) > MOST:
        return None
    found = (dict(zip(space.names, values, strict=True)) for values in product(*levels))
    kept = [design for design in found if _holds(space, design)]
    return tuple(kept) if space.plain else tuple({repr(one): one for one in canonical_designs(space, kept)}.values())


def canonical_designs(space: SearchSpace, designs: Sequence[Design]) -> list[Design]:
    """The designs themselves; where several stand for one, that one of them that always does."""
    if space.plain or not designs:
        return list(designs)
    return list(space.decode(space.folds.canonical(space.encode(designs))))


def _levels(variable: Variable) -> range | tuple[Any, ...]:
    """Values of a variable; empty if they cannot be counted."""
    if isinstance(variable, Integer):
        return range(variable.low, variable.high + 1)
    return variable.levels if isinstance(variable, Categorical) else ()


def _holds(space: SearchSpace, design: Design) -> bool:
    try:
        space.check(design)
    except SpaceError:
        return False
    return True
