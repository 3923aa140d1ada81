"""The exact objective as a simulator: every problem of one output whose solution is known."""

from dataclasses import dataclass

import numpy as np
import pytest

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.problems.beam import Beam
from fieldcraft.physics.problems.chips import Chips
from fieldcraft.physics.problems.heat import Heat
from fieldcraft.physics.simulators.exact import Exact
from fieldcraft.physics.space import Categorical, Continuous, SearchSpace

NO_CHANCE = np.random.default_rng(0)


@dataclass(frozen=True)
class Weighed(Problem):
    """A problem with a constraint beside its exactly known objective."""

    space = SearchSpace((Continuous("a", 0.0, 1.0),))
    outputs = (Output("cost", "EUR"), Output("excess", "kg"))

    def exact(self, points):
        return points[:, 0]


@dataclass(frozen=True)
class Named(Weighed):
    """A problem with a categorical variable."""

    space = SearchSpace((Categorical("a", ("one", "two")),))
    outputs = (Output("cost", "EUR"),)


@pytest.mark.parametrize(
    ("problem", "design"),
    [
        (Heat(boundary=1), {"y": 1.0, "x": 5.0}),
        (Beam(), {"x": 0.3}),
        (Chips(), {"x1": 40.0, "y1": 30.0, "x2": 90.0, "y2": 50.0}),
    ],
)
def test_the_answer_is_the_exact_objective_in_its_unit(problem, design):
    fields = Exact().run(problem, design, NO_CHANCE)
    (objective,) = problem.outputs
    names = problem.domain.names if problem.domain else problem.space.names
    place = np.array([[design[name] for name in names]])
    assert problem.evaluate(design, fields) == {objective.name: problem.exact(place)[0]}
    assert fields[objective.name].attrs["units"] == objective.unit


def test_the_temperature_is_read_at_the_design_whatever_the_order_of_its_variables():
    fields = Exact().run(Heat(boundary=1), {"y": 1.0, "x": 5.0}, NO_CHANCE)
    assert float(fields["temperature"]) == pytest.approx(347.565778, abs=1e-6)


@pytest.mark.parametrize("problem", [Weighed(), Named()])
def test_a_problem_whose_outputs_are_not_all_known_exactly_is_refused(problem):
    with pytest.raises(ValueError, match=f"'exact' cannot run {type(problem).__name__}: it needs `exact`"):
        Exact().run(problem, {"a": "one" if isinstance(problem, Named) else 0.5}, NO_CHANCE)
