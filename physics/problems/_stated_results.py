"""Results as a campaign file states them, read into the outputs of a problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fieldcraft.physics.outputs.checks import require_computable
from fieldcraft.physics.outputs.distance import Distance
from fieldcraft.physics.outputs.formula import Formula, written
from fieldcraft.physics.outputs.output import Output, Sense
from fieldcraft.physics.problems._declared import LATER, STRICT
from fieldcraft.physics.space import SearchSpace


@dataclass(frozen=True)
class StatedResult:
    """A number that an experiment yields, or one that is computed from such numbers.

    Args:
        name: Its name.
        unit: Physical unit; empty for a pure number.
        objective: Sense in which it is one of several objectives.
        reference: Worst value of such an objective that still counts, in its unit.
        sd: Standard deviation of a result that states none of its own, in its unit, where that is known.
        plain: True for a number that is measured and shown, and neither objective nor constraint.
        formula: Formula by which it is computed from other results and numeric variables; it is not measured then.
        target: Value to which the objective is to be as near as can be, in its unit.
        band: Ends, in its unit, between which the objective is to be.
    """

    name: str
    unit: str = ""
    objective: Sense | None = None
    reference: float | None = None
    sd: float | None = field(default=None, metadata=LATER)
    plain: bool = field(default=False, metadata=LATER)
    formula: str | None = field(default=None, metadata=LATER)
    target: float | None = field(default=None, metadata=LATER)
    band: tuple[float, float] | None = field(default=None, metadata=LATER)

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT

    def __post_init__(self) -> None:
        given = [
            word
            for word in ("plain", "formula", "target", "band")
            if getattr(self, word) is not None and getattr(self, word) is not False
        ]
        if len(given) > 1:
            raise ValueError(f"The result {self.name!r} has {' and '.join(given)}: give one of them.")
        assert self.outputs  # which refuses a formula that is none, and a band without an inside

    @property
    def sought(self) -> bool:
        """True if it has a target or a band."""
        return self.target is not None or self.band is not None

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The output; of a result with a target or a band its distance from that, and then the output, plain."""
        if not self.sought:
            formula = None if self.formula is None else Formula(self.formula)
            return (Output(self.name, self.unit, self.objective, self.reference, self.sd, self.plain, formula),)
        if self.objective == "maximize":
            raise ValueError(
                f"The result {self.name!r} is maximised and has a target or a band: minimize its distance."
            )
        low, high = (self.target, self.target) if self.band is None else self.band
        assert low is not None and high is not None  # it has a target, or a band
        distance = Distance(self.name, low, high)
        return (
            Output(f"{self.name}_distance", self.unit, self.objective, self.reference, formula=distance),
            Output(self.name, self.unit, sd=self.sd, plain=True),
        )


def outputs_of(results: Sequence[StatedResult], space: SearchSpace) -> tuple[Output, ...]:
    """The outputs of results, the plain ones last.

    Raises:
        ValueError: a name is given twice, no result is an objective, or a formula reads what is not there, or a number
            that would be a constraint as well.
    """
    each = [output for result in results for output in result.outputs]
    counted = [output for output in each if not output.plain]
    if not counted:
        raise ValueError("Every result is plain: the first that is not is the objective.")
    found = (*counted, *(output for output in each if output.plain))
    require_computable(found, space)
    objectives = [output for output in counted if output.objective is not None] or counted[:1]
    for result in results:
        if result.sought and result.outputs[0] not in objectives:
            raise ValueError(
                f"The result {result.name!r} has a target or a band and is no objective: name it first, or state "
                f"constraints by formulas ('{written(result.name)} - 42', met where <= 0)."
            )
    for output in counted:
        if isinstance(output.formula, Formula):
            _require_no_constraint(output.name, output.formula, found, objectives)
    return found


def _require_no_constraint(
    output: str, formula: Formula, outputs: Sequence[Output], objectives: Sequence[Output]
) -> None:
    limits = [one.name for one in outputs if not one.plain and one.formula is None and one not in objectives]
    for name in formula.names:
        if name in limits:
            raise ValueError(
                f"The formula of {output!r} reads {name!r}, which would be a constraint too, met where <= 0: "
                f"say plain: true of {name!r}; a formula can state its limit."
            )
