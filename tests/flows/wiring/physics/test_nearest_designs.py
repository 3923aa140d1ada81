"""Emulators of problems that are not defined where their known constraints are violated."""

import textwrap

import numpy as np
import pytest
import yaml
from small import SEARCH, finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.flows.wiring.physics.snapshots import StatedFields
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import LinearEquation
from fieldcraft.physics.parametric.statement import Condition, Field, ParametricEquation
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, LinearConstraint, SearchSpace
from fieldcraft.storage.open_ledger import open_ledger

SPACE = SearchSpace((Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)), (LinearConstraint({"x": 1, "y": 1}, 0.5),))
OUTSIDE = np.array([[-0.9, -0.9], [0.0, 0.0], [-0.2, -0.4]])  # the second and the third violate x + y <= 0.5
LINE = Domain((Axis("s", 0.0, 1.0),))


class Room(Problem):
    """A height that is defined where there is room, x + y <= 0.5."""

    space = SPACE
    outputs = (Output("height"),)

    def emulate(self, designs):
        with np.errstate(invalid="ignore"):
            return np.sqrt(0.5 + 1e-9 - designs["x"] - designs["y"])


class Rod(Problem):
    """The same as the load of a rod."""

    space = SPACE
    outputs = (Output("height"),)

    @property
    def parametric(self):
        ends = Condition("u", "s", "low", 0.0), Condition("u", "s", "high", 0.0)
        return ParametricEquation(LINE, (Field("u"),), self.equation_of, ends, (8,))

    def equation_of(self, design):
        with np.errstate(invalid="ignore"):
            load = np.sqrt(0.5 + 1e-9 - design["x"] - design["y"])
        return LinearEquation(0.0, (0.0,), ((-1.0,),), lambda points: load + 0 * points[:, 0])

    def functional(self, fields, axes, designs):
        return fields["u"].max(axis=1, keepdims=True)


@pytest.mark.parametrize("problem", [Room(), Rod()])
def test_a_design_outside_the_space_has_the_prediction_of_the_nearest_one_where_it_has_none(problem):
    (emulator,) = emulators_of(problem, SPACE)
    there = SPACE.repair(OUTSIDE)
    assert np.array_equal(there[0], OUTSIDE[0]) and not np.array_equal(there[1], OUTSIDE[1])
    np.testing.assert_allclose(emulator.predict(OUTSIDE), emulator.predict(there), rtol=1e-12)


def test_fields_are_predicted_so_too():
    problem = Rod()
    fields = StatedFields(problem, problem.parametric, SPACE, ("u",), (8,))
    np.testing.assert_allclose(fields.predict(OUTSIDE), fields.predict(SPACE.repair(OUTSIDE)), rtol=1e-12)


def test_what_is_defined_outside_is_predicted_there():
    class Sum(Room):
        def emulate(self, designs):
            return designs["x"] + designs["y"]

    (emulator,) = emulators_of(Sum(), SPACE)
    assert emulator.predict(OUTSIDE) == pytest.approx([0.1, 1.0, 0.7])


def test_a_design_of_the_space_without_a_prediction_is_refused():
    class Hole(Room):
        def emulate(self, designs):
            return np.where(designs["x"] < 0.1, np.nan, designs["x"])

    (emulator,) = emulators_of(Hole(), SPACE)
    with pytest.raises(ValueError, match=r"predicts nan for 'height' at x 0.05, y 0.05"):
        emulator.predict(OUTSIDE)


PLUGIN = '''
"""A height that is defined where there is room."""

from dataclasses import dataclass

import numpy as np

from fieldcraft import Continuous, LinearConstraint, Output, Problem, SearchSpace


@dataclass(frozen=True)
class Room(Problem):
    @property
    def space(self):
        room = LinearConstraint({"x": 1, "y": 1}, 0.5)
        return SearchSpace((Continuous("x", 0.0, 1.0), Continuous("y", 0.0, 1.0)), (room,))

    @property
    def outputs(self):
        return (Output("height"),)

    def emulate(self, designs):
        with np.errstate(invalid="ignore"):
            return np.sqrt(0.5 + 1e-9 - designs["x"] - designs["y"]) + (designs["x"] - 0.2) ** 2

    def function(self, design):
        return {"height": max(0.5 - design["x"] - design["y"], 0) ** 0.5 + (design["x"] - 0.25) ** 2}
'''


def test_a_campaign_over_such_a_problem_is_checked_and_goes_to_its_end(tmp_path, monkeypatch, capsys):
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "room.py").write_text(textwrap.dedent(PLUGIN))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    spec = {
        "name": "room",
        "seed": 1,
        "sense": "minimize",
        "problem": {"kind": "room"},
        "simulator": {"kind": "function"},
        "dispatcher": {"kind": "inline"},
        "algorithm": {"kind": "emulated", "maximizer": SEARCH},
        "budget": {"trials": 6},
    }
    file = tmp_path / "room.yaml"
    file.write_text(yaml.safe_dump(spec))
    assert main(["check", str(file), "--home", str(tmp_path / "home")]) == 0, capsys.readouterr().err
    finish(file, tmp_path / "home", tmp_path / "plugins")
    trials = open_ledger(settings_from({}, tmp_path / "home").ledger).trials("room")
    assert len([trial.outputs["height"] for trial in trials]) == 6
    for trial in trials:
        SPACE.check(trial.design)
