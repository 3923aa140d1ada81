"""Outputs of a problem: measured numbers, those computed from them, and known optima."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from fieldcraft.physics.operators import Values

Sense = Literal["maximize", "minimize"]


class Derivation(Protocol):
    """Rule by which an output is computed from measured ones and from the design (see ``physics.outputs``)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs and numeric variables that it reads."""
        ...

    @property
    def kept_from_zero(self) -> frozenset[str]:
        """Those that it divides by, or takes a root or a logarithm of."""
        ...

    def __call__(self, values: Mapping[str, Values]) -> Values:
        """The output of values by name, in its unit: numbers, numpy arrays or torch tensors, element by element."""
        ...


@dataclass(frozen=True)
class Output:
    """A number that a trial yields.

    Args:
        name: Its name in results and tables, and of the scalar variable that ``evaluate`` reads by default.
        unit: Physical unit; empty for a pure number.
        objective: Sense in which it is one of several objectives; None for an output that is not marked. If no output
            is marked, the first is the objective, and the campaign file states its sense.
        reference: Worst value of such an objective that still counts, in its unit; None if it is not known.
        sd: Standard deviation of a result that states none of its own, in its unit, where results have noise of a known
            size; None if it is not known. No noise is added.
        plain: True for a number that is recorded and shown, and neither objective nor constraint.
        formula: Rule by which it is computed from measured outputs and the design; None for one that is measured.

    Raises:
        ValueError: an unknown sense, a reference that is not finite or is no objective's, an sd that is negative or
            not finite, a plain output that is an objective, or a computed one that is plain, has an sd or a text in the
            place of its formula.
    """

    name: str
    unit: str = ""
    objective: Sense | None = None
    reference: float | None = None
    sd: float | None = None
    plain: bool = False
    formula: Derivation | None = None

    def __post_init__(self) -> None:
        if self.plain and self.objective is not None:
            raise ValueError(f"The output {self.name!r} is plain and an objective: leave out one of them.")
        if isinstance(self.formula, str):
            raise ValueError(f"The output {self.name!r} has a text for a formula: give Formula({self.formula!r}).")
        if self.formula is not None and (self.plain or self.sd is not None):
            raise ValueError(
                f"The output {self.name!r} is computed from others: leave out plain, and give the sd of those."
            )
        if self.objective not in (None, "maximize", "minimize"):
            raise ValueError(
                f"The output {self.name!r} has the objective {self.objective!r}: give maximize or minimize."
            )
        if self.sd is not None and not (math.isfinite(self.sd) and self.sd >= 0):
            raise ValueError(
                f"The output {self.name!r} has the sd {self.sd}: give a finite number >= 0, or leave it out."
            )
        if self.reference is None:
            return
        if self.objective is None:
            raise ValueError(f"The output {self.name!r} has a reference and is no objective: mark it, objective=...")
        if not math.isfinite(self.reference):
            raise ValueError(f"The output {self.name!r} has the reference {self.reference}: give a finite number.")


@dataclass(frozen=True)
class Optimum:
    """A known best design.

    Args:
        design: Its design, in physical units.
        value: The objective there, without noise, in its unit.
    """

    design: Mapping[str, float | int | str]
    value: float
