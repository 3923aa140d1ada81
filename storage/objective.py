"""Objective of a campaign, or its several objectives: the best and the feasible results, from records alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from fieldcraft.storage.records import Trial, TrialSummary


@dataclass(frozen=True)
class Goal:
    """One of several objectives.

    Args:
        output: Its output.
        maximize: True if it is maximised.
        reference: Worst value that still counts, in its unit; None if it is not stated.
    """

    output: str
    maximize: bool
    reference: float | None = None


@dataclass(frozen=True)
class Objective:
    """Definition of "best" in a campaign: an output, its sense, and the outputs g that must be <= 0.

    Args:
        output: The objective; the first of several.
        maximize: True if it is maximised.
        constraints: Outputs that must be <= 0.
        goals: All objectives where there are several, of which no result need be best (``storage.pareto``); else empty.
    """

    output: str
    maximize: bool
    constraints: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()

    @classmethod
    def of(cls, outputs: Sequence[Mapping[str, Any]], sense: str | None) -> Self:
        """Objective by one rule: marked outputs are optimised, else the first; others but plain ones are constraints.

        Args:
            outputs: The outputs as a campaign's environment records them: ``name``, of each that is marked
                ``objective`` (its sense) and ``reference``, and ``plain`` of one that is neither.
            sense: Sense of a single objective, maximize or minimize; None for a distance, which is minimised.
        """
        goals = tuple(
            Goal(output["name"], output["objective"] == "maximize", output.get("reference"))
            for output in outputs
            if output.get("objective")
        )
        limits = [output for output in outputs[max(len(goals), 1) :] if not output.get("plain")]
        first, others = outputs[0]["name"], tuple(output["name"] for output in limits)
        if goals:
            return cls(first, goals[0].maximize, others, goals)
        return cls(first, sense == "maximize", others)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the objectives."""
        return tuple(goal.output for goal in self.goals) or (self.output,)

    def best(self, trials: Sequence[Trial | TrialSummary]) -> float | None:
        """Best value among the results of ``trials`` that count and satisfy the constraints, in the output's unit."""
        return self.best_of(trial.outputs or {} for trial in trials if trial.counts)

    def best_of(self, outputs: Iterable[Mapping[str, float]]) -> float | None:
        """Best value among ``outputs`` that satisfy the constraints, in the output's unit; None where none does.

        None where there are several objectives: no value is best then.
        """
        if self.goals:
            return None
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
