"""A problem whose experiments differ in cost, with a variable of each kind and a known constraint."""

from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, Integer, LinearConstraint, SearchSpace


@dataclass(frozen=True)
class Priced(Problem):
    """n plates of an alloy at a temperature t: each plate costs 2 units, and t + 10 n may not exceed 120."""

    @property
    def space(self):
        return SearchSpace(
            (Continuous("t", 20.0, 90.0, "degC"), Integer("n", 1, 5), Categorical("alloy", ("brass", "steel"))),
            (LinearConstraint({"t": 1.0, "n": 10.0}, 120.0),),
        )

    @property
    def outputs(self):
        return (Output("strength", "MPa"),)

    def cost(self, design):
        return 2.0 * design["n"]

    def function(self, design):
        return {"strength": design["t"] * design["n"] + (3.0 if design["alloy"] == "steel" else 0.0)}
