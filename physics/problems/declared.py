"""A problem that the campaign file states itself: variables, bounds and results, for whoever has no code to write."""

from dataclasses import dataclass, field

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.problems._declared import LATER, Kept, StatedVariable
from fieldcraft.physics.problems._stated_results import StatedResult, outputs_of
from fieldcraft.physics.space import Exchangeable, SearchSpace
from fieldcraft.physics.structure.vectors import components, spread


@dataclass(frozen=True)
class Declared(Problem):
    """A problem without a formula or physics of its own: people, a program or recorded results answer its designs.

    Args:
        variables: The variables, in order: ``{name: x, low: 0, high: 1, unit: m}``; ``whole: true`` for a whole number,
            ``log: true`` for one that goes by its order of magnitude, ``periodic: true`` for an angle whose bounds are
            one value, ``{name: glue, choices: [A, B]}`` for a choice and ``ordered: true`` for one in an order,
            ``size: 4`` for a vector of four, ``only_if: {glue: [B]}`` for one that other choices do not have.
        results: The numbers that an experiment yields, ``{name: strength, unit: MPa}``: the objective first, then
            constraints, each met when it is <= 0. Of several objectives each says ``objective: minimize`` or
            ``maximize``, and may state a ``reference``, the worst value that still counts. Each may state the ``sd`` of
            its noise, where that is known. ``plain: true`` marks one that is neither objective nor constraint,
            ``formula: yield / impurity`` one that is computed from others, and ``target: 40`` or ``band: [38, 42]`` an
            objective that is to be near that value, or in between.
        keeps: Sums that every design keeps: ``{sum: [sand, lime, ash], equals: 1}`` for a mixture,
            ``{sum: {x: 1, y: -2}, at_most: 3}``, ``at_least``.
        exchangeable: Groups of blocks of variables that may be swapped without effect:
            ``[[[x1, y1], [x2, y2]]]``; the name of a vector, ``[w]``, for all of its components.
    """

    variables: tuple[StatedVariable, ...]
    results: tuple[StatedResult, ...]
    keeps: tuple[Kept, ...] = field(default=(), metadata=LATER)
    exchangeable: tuple[str | tuple[tuple[str, ...], ...], ...] = field(default=(), metadata=LATER)

    def __post_init__(self) -> None:
        names = [result.name for result in self.results]
        if not names or len(set(names)) < len(names) or not all(name.strip() for name in names):
            raise ValueError(f"The results are named {names}: name at least one, and each once.")
        assert self.space  # which refuses what is no space
        assert (
            self.outputs
        )  # which refuses a reference without an objective, and a formula that reads what is not there

    @property
    def space(self) -> SearchSpace:
        """The variables with their bounds and choices, and what every design keeps."""
        variables = tuple(each for one in self.variables for each in one.stated)
        names = tuple(variable.name for variable in variables)
        return SearchSpace(
            variables,
            tuple(kept.stated(names) for kept in self.keeps),
            tuple(Exchangeable(_blocks(group, names)) for group in self.exchangeable),
            tuple(condition for one in self.variables for condition in one.conditions),
        )

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The results, in the order of the file, the plain ones last."""
        return outputs_of(self.results, self.space)


def _blocks(group: str | tuple[tuple[str, ...], ...], names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    if isinstance(group, str):
        return tuple((each,) for each in components(group, names) or (group,))
    return tuple(spread(block, names) for block in group)
