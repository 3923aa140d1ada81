"""A problem that the campaign file states itself: variables, bounds and results, for whoever has no code to write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fieldcraft.physics.problem import Output, Problem, Sense
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace, Variable

_STRICT: Mapping[str, Any] = {"extra": "forbid", "allow_inf_nan": False}  # how a part of a file is read


@dataclass(frozen=True)
class _Variable:
    """A variable: a number from ``low`` to ``high``, or one of ``choices``.

    Args:
        name: Its name.
        low: Lower bound of a number, in ``unit``.
        high: Upper bound of a number, in ``unit``.
        unit: Physical unit; empty for a pure number.
        whole: True for whole numbers only.
        choices: The words to choose from, instead of bounds.
        log: True for a number whose effect goes with its order of magnitude.
    """

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    whole: bool = False
    choices: tuple[str, ...] = ()
    log: bool = False

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    def __post_init__(self) -> None:
        bounds = (self.low, self.high)
        if self.choices and (bounds != (None, None) or self.unit or self.whole or self.log):
            raise ValueError(f"{self.name} has choices and is no number: leave out low, high, unit, whole and log.")
        if not self.choices and None in bounds:
            raise ValueError(f"{self.name} has the bounds {self.low} and {self.high}: give low and high, or choices.")
        if self.whole and not all(bound is not None and float(bound).is_integer() for bound in bounds):
            raise ValueError(f"{self.name} is a whole number from {self.low} to {self.high}: give whole bounds.")
        SearchSpace((self.stated,))  # which refuses bounds that are no interval

    @property
    def stated(self) -> Variable:
        """The variable of the search space."""
        if self.choices:
            return Categorical(self.name, self.choices)
        assert self.low is not None and self.high is not None  # or there would be choices
        if self.whole:
            return Integer(self.name, int(self.low), int(self.high), self.unit, self.log)
        return Continuous(self.name, self.low, self.high, self.unit, self.log)


@dataclass(frozen=True)
class _Result:
    """A number that an experiment yields.

    Args:
        name: Its name.
        unit: Physical unit; empty for a pure number.
        objective: Sense in which it is one of several objectives.
        reference: Worst value of such an objective that still counts, in its unit.
        sd: Standard deviation of a result that states none of its own, in its unit, where that is known.
    """

    name: str
    unit: str = ""
    objective: Sense | None = None
    reference: float | None = None
    sd: float | None = None

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT


@dataclass(frozen=True)
class Declared(Problem):
    """A problem without a formula or physics of its own: people, a program or recorded results answer its designs.

    Args:
        variables: The variables, in order: ``{name: x, low: 0, high: 1, unit: m}``; ``whole: true`` for a whole number,
            ``log: true`` for one that goes by its order of magnitude, ``{name: glue, choices: [A, B]}`` for a choice.
        results: The numbers that an experiment yields, ``{name: strength, unit: MPa}``: the objective first, then
            constraints, each met when it is <= 0. Of several objectives each says ``objective: minimize`` or
            ``maximize``, and may state a ``reference``, the worst value that still counts. Each may state the ``sd`` of
            its noise, where that is known.
    """

    variables: tuple[_Variable, ...]
    results: tuple[_Result, ...]

    def __post_init__(self) -> None:
        names = [result.name for result in self.results]
        if not names or len(set(names)) < len(names) or not all(name.strip() for name in names):
            raise ValueError(f"The results are named {names}: name at least one, and each once.")
        assert self.outputs  # which refuses a reference without an objective
        SearchSpace(tuple(variable.stated for variable in self.variables))  # which refuses what is no space

    @property
    def space(self) -> SearchSpace:
        """The variables with their bounds and choices."""
        return SearchSpace(tuple(variable.stated for variable in self.variables))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The results, in the order of the file."""
        return tuple(Output(each.name, each.unit, each.objective, each.reference, each.sd) for each in self.results)
