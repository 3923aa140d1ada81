"""Variables and known constraints as a campaign file states them, read into those of a search space."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fieldcraft.physics.constraints import LinearConstraint, LinearEquality
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace, Variable
from fieldcraft.physics.structure.conditions import OnlyIf
from fieldcraft.physics.structure.vectors import spread_values, vector

STRICT: Final[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}  # how a part of a file is read
LATER: Final[Mapping[str, Any]] = {"left_out": True}  # for what earlier versions had not: left out while not stated


@dataclass(frozen=True)
class StatedVariable:
    """A variable: a number from ``low`` to ``high``, or one of ``choices``.

    Args:
        name: Its name.
        low: Lower bound of a number, in ``unit``.
        high: Upper bound of a number, in ``unit``.
        unit: Physical unit; empty for a pure number.
        whole: True for whole numbers only.
        choices: The words to choose from, instead of bounds.
        log: True for a number whose effect goes with its order of magnitude.
        ordered: True for choices in an order, of which neighbours are alike.
        periodic: True for an angle or a phase: its two bounds are one value.
        size: Number of components, ``name[0]``, ``name[1]``, ..., of a vector of such variables.
        only_if: The one variable of ``choices`` and those of its choices for which this variable exists.
    """

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    whole: bool = False
    choices: tuple[str, ...] = ()
    log: bool = False
    ordered: bool = field(default=False, metadata=LATER)
    periodic: bool = field(default=False, metadata=LATER)
    size: int | None = field(default=None, metadata=LATER)
    only_if: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False, metadata=LATER)

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT

    def __post_init__(self) -> None:
        bounds = (self.low, self.high)
        if self.choices and (bounds != (None, None) or self.unit or self.whole or self.log or self.periodic):
            raise ValueError(
                f"{self.name} has choices and is no number: leave out low, high, unit, whole and log, and periodic."
            )
        if not self.choices and None in bounds:
            raise ValueError(f"{self.name} has the bounds {self.low} and {self.high}: give low and high, or choices.")
        if self.whole and not all(bound is not None and float(bound).is_integer() for bound in bounds):
            raise ValueError(f"{self.name} is a whole number from {self.low} to {self.high}: give whole bounds.")
        if self.ordered and not self.choices:
            raise ValueError(f"{self.name} is a number, which has its order: leave out ordered.")
        if self.periodic and self.whole:
            raise ValueError(f"{self.name} is a whole number and periodic: leave out one of them.")
        if len(self.only_if) > 1:
            raise ValueError(f"{self.name} depends on {', '.join(self.only_if)}: name one variable in only_if.")
        SearchSpace(self.stated)  # which refuses bounds that are no interval

    @property
    def stated(self) -> tuple[Variable, ...]:
        """The variable of the search space, or the components of a vector."""
        one = self._one
        return (one,) if self.size is None else vector(one, self.size)

    @property
    def _one(self) -> Continuous | Integer | Categorical:
        if self.choices:
            return Categorical(self.name, self.choices, self.ordered)
        assert self.low is not None and self.high is not None  # or there would be choices
        if self.whole:
            return Integer(self.name, int(self.low), int(self.high), self.unit, self.log)
        return Continuous(self.name, self.low, self.high, self.unit, self.log, self.periodic)

    @property
    def conditions(self) -> tuple[OnlyIf, ...]:
        """The condition of the variable, or one of each component."""
        return tuple(OnlyIf(v.name, on, levels) for v in self.stated for on, levels in self.only_if.items())


@dataclass(frozen=True)
class Kept:
    """A sum of numbers that every design keeps: one of ``equals``, ``at_most`` and ``at_least``.

    Args:
        sum: The numbers, ``[a, b, c]``, or their coefficients, ``{a: 1, b: -2}``; a vector stands for its components.
        equals: Value of the sum, in its unit: a mixture has the sum 1.
        at_most: Largest value.
        at_least: Least value.
    """

    sum: dict[str, float] | tuple[str, ...] = field(hash=False)
    equals: float | None = None
    at_most: float | None = None
    at_least: float | None = None

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT

    def __post_init__(self) -> None:
        given = [each for each in (self.equals, self.at_most, self.at_least) if each is not None]
        if len(given) != 1 or not self.sum:
            raise ValueError(
                f"the sum of {', '.join(self.sum) or 'nothing'} has {len(given)} values: name its variables, and give "
                "one of equals, at_most and at_least."
            )
        if len(set(self.sum)) < len(self.sum):
            raise ValueError(f"the sum of {', '.join(self.sum)} names a variable twice: give it the coefficient 2.")

    def stated(self, names: tuple[str, ...]) -> LinearConstraint | LinearEquality:
        """The constraint of a search space with variables of these names."""
        weights = self.sum if isinstance(self.sum, dict) else dict.fromkeys(self.sum, 1.0)
        each = spread_values(weights, names)
        if self.equals is not None:
            return LinearEquality(each, self.equals)
        if self.at_most is not None:
            return LinearConstraint(each, self.at_most)
        assert self.at_least is not None  # one of the three is given
        return LinearConstraint({name: -weight for name, weight in each.items()}, -self.at_least)
