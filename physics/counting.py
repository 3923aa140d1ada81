"""The designs of a space that has few of them."""

import math
from functools import lru_cache
from itertools import product
from typing import Any

from fieldcraft.physics.categories import Categorical
from fieldcraft.physics.space import Design, SearchSpace, SpaceError, Variable
from fieldcraft.physics.variables import Integer

MOST = 10_000
"""Combinations of levels beyond which nobody counts: no campaign comes to the end of them."""


@lru_cache(maxsize=16)
def designs_of(space: SearchSpace) -> tuple[Design, ...] | None:
    """All designs of a space, in the order of its variables' levels.

    Returns None if a variable is continuous, or if the levels have more than ``MOST`` combinations.
    """
    levels = [_levels(variable) for variable in space.variables]
    if math.prod(len(each) or MOST + 1 for each in levels) > MOST:
        return None
    found = (dict(zip(space.names, values, strict=True)) for values in product(*levels))
    return tuple(design for design in found if _holds(space, design))


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
