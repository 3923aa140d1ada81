"""Objective of a campaign: the best and the feasible results, from records alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from fieldcraft.storage.records import Trial, TrialSummary


@dataclass(frozen=True)
class Objective:
    """Definition of "best" in a campaign: an output, its sense, and the outputs g that must be <= 0."""

    output: str
    maximize: bool
    constraints: tuple[str, ...] = ()

    @classmethod
    def of(cls, outputs: Sequence[str], sense: str) -> Self:
        """Objective by the one rule: the first output is optimised, the others are constraints.

        ``sense`` is maximize or minimize.
        """
        first, *rest = outputs
        return cls(first, sense == "maximize", tuple(rest))

    def best(self, trials: Sequence[Trial | TrialSummary]) -> float | None:
        """Best value among completed ``trials`` that satisfy the constraints, in the output's unit."""
        return self.best_of(trial.outputs for trial in trials if trial.outputs)

    def best_of(self, outputs: Iterable[Mapping[str, float]]) -> float | None:
        """Best value among ``outputs`` that satisfy the constraints, in the output's unit; None where none does."""
        feasible = [each[self.output] for each in outputs if not self.constraints or self.feasible(each)]
        return (max if self.maximize else min)(feasible, default=None)

    def feasible(self, outputs: Mapping[str, float]) -> bool:
        """True if ``outputs`` satisfy every constraint g <= 0."""
        return all(outputs[name] <= 0 for name in self.constraints)

    def excess(self, outputs: Mapping[str, float]) -> dict[str, float]:
        """max(g, 0) of every constraint by name, each in its own unit; 0.0 where it is met."""
        return {name: max(float(outputs[name]), 0.0) for name in self.constraints}

    def violation(self, outputs: Mapping[str, float]) -> float:
        """sum_k max(g_k, 0), added up whatever the units are; 0.0 exactly where all constraints are met."""
        return math.fsum(self.excess(outputs).values())
