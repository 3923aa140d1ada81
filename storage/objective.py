"""What a campaign calls best, from records alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from storage.records import Trial


@dataclass(frozen=True)
class Objective:
    """What "best" means in a campaign: an output, its sense, and the outputs g that must be <= 0."""

    output: str
    maximize: bool
    constraints: tuple[str, ...] = ()

    @classmethod
    def of(cls, outputs: Sequence[str], sense: str) -> Self:
        """The one rule: the first output counts, the others are constraints; ``sense`` is maximize or minimize."""
        first, *rest = outputs
        return cls(first, sense == "maximize", tuple(rest))

    def best(self, trials: Sequence[Trial]) -> float | None:
        """Best value among completed ``trials`` that satisfy the constraints, in the output's unit."""
        return self.best_of(trial.outputs for trial in trials if trial.outputs)

    def best_of(self, outputs: Iterable[Mapping[str, float]]) -> float | None:
        """Best value among ``outputs`` that satisfy the constraints, in the output's unit; None where none does."""
        feasible = [each[self.output] for each in outputs if all(each[name] <= 0 for name in self.constraints)]
        return (max if self.maximize else min)(feasible, default=None)
