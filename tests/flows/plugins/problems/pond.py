"""A problem with known constraints that are curved: where on an island a well may be dug, around a pond."""

from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, QuadraticConstraint, SearchSpace


@dataclass(frozen=True)
class Pond(Problem):
    """Depth of the ground water at (east, north) of the middle of a round island of 4 km with a pond of 1 km."""

    @property
    def space(self):
        squares = {("east", "east"): 1.0, ("north", "north"): 1.0}
        return SearchSpace(
            (Continuous("east", -4.0, 4.0, "km"), Continuous("north", -4.0, 4.0, "km")),
            (
                QuadraticConstraint(squares, {}, 16.0),
                QuadraticConstraint({pair: -1.0 for pair in squares}, {}, -1.0),
            ),
        )

    @property
    def outputs(self):
        return (Output("depth", "m"),)

    def function(self, design):
        return {"depth": 3.0 + (design["east"] - 0.4) ** 2 + 2.0 * design["north"] ** 2}
