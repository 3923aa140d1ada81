"""Conditional variables: those that exist only where a categorical variable has certain levels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcraft.physics.images import Image
from fieldcraft.physics.structure.categories import Categorical
from fieldcraft.physics.variables import Array, SpaceError, check_name, suggestion


@dataclass(frozen=True)
class OnlyIf:
    """The condition under which a variable exists; elsewhere its value has no effect, and models do not see it.

    A design states a value of it all the same, which is the same in all designs that are proposed where it has none.

    Args:
        name: The variable.
        of: Name of the categorical variable on which it depends.
        levels: Levels of that one for which it exists; at least one.

    Raises:
        SpaceError: a blank name, no level, a repeated one, or a variable that depends on itself.
    """

    name: str
    of: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.of)
        if isinstance(self.levels, str) or not self.levels or len(set(self.levels)) < len(self.levels):
            raise SpaceError(
                f"{self.name} exists for the levels {self.levels!r} of {self.of}: give a tuple of at least one, each "
                "once."
            )
        if self.name == self.of:
            raise SpaceError(f"{self.name} exists only for levels of itself: name another variable.")

    def holds(self, design: Mapping[str, object]) -> bool:
        """True if the variable exists in a design."""
        return design.get(self.of) in self.levels


def require_conditions(conditions: tuple[OnlyIf, ...], variables: Mapping[str, object]) -> None:
    """Accept conditions on the variables of a space, by name.

    Raises:
        SpaceError: an unknown variable or level, an image, a variable with two conditions, one that depends on
            something else than a category or on a variable that is conditional itself, or one that always exists.
    """
    names = [condition.name for condition in conditions]
    for condition in conditions:
        name, on = condition.name, condition.of
        for each in (name, on):
            if each not in variables:
                raise SpaceError(f"No variable is named {each!r}.{suggestion(each, variables)}")
        category = variables[on]
        if not isinstance(category, Categorical):
            raise SpaceError(f"{name} exists only for levels of {on}, which is no categorical variable: name one.")
        for level in condition.levels:
            category.check(level)
        if len(condition.levels) == len(category.levels):
            raise SpaceError(f"{name} exists for all levels of {on}: leave the condition out.")
        if names.count(name) > 1:
            raise SpaceError(f"{name} has two conditions: give it one, with all of its levels.")
        if on in names:
            raise SpaceError(
                f"{name} exists only for levels of {on}, which is conditional itself: let it depend on a variable that "
                "always exists."
            )
        if isinstance(variables[name], Image):
            raise SpaceError(f"{name} is an image, and images always exist: leave the condition out.")


def resting(variable: Any) -> Array:
    """Coordinates (width,) of the value that a conditional variable has where it does not exist.

    The middle of a number's interval, the middle one of ordered levels, the first of others.

    Args:
        variable: A variable of a search space.
    """
    if isinstance(variable, Categorical) and not variable.ordered:
        return variable.encode(variable.levels[0])
    return np.asarray(variable.snap(np.zeros((1, variable.width)))[0])
