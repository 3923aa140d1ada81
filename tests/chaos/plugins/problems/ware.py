"""A ware of which each piece costs a unit: its result tells which attempt at which design it came from."""

from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, Integer, SearchSpace


@dataclass(frozen=True)
class Ware(Problem):
    """The height is the field's level, another for each attempt, plus the design's x."""

    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 1.0, "m"), Integer("pieces", 1, 3)))

    @property
    def outputs(self):
        return (Output("height", "m"),)

    def cost(self, design):
        return float(design["pieces"])

    def evaluate(self, design, fields):
        return {"height": float(fields["level"]) + design["x"]}
