"""Emulators and equations of designs that have whole numbers and choices."""

from dataclasses import dataclass

import bars
import numpy as np
import pytest
import yaml
from small import SEARCH, finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse, read_campaign
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.physics.emulators import emulators_of
from fieldcraft.models.proposers.emulated import Emulated
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace
from fieldcraft.storage.open_ledger import open_ledger


@dataclass(frozen=True)
class Wall(Problem):
    """Heat through a wall of so many layers of one material, by a rule of thumb that a simulation corrects."""

    @property
    def space(self):
        return SearchSpace(
            (
                Integer("layers", 1, 5),
                Continuous("thick", 0.01, 0.1, "m"),
                Categorical("of", ("cork", "brick", "wool")),
                Categorical("grade", ("low", "high"), ordered=True),
            )
        )

    @property
    def outputs(self):
        return (Output("cost", "W"),)

    def emulate(self, designs):
        conducts = np.select([designs["of"] == "cork", designs["of"] == "brick"], [0.05, 0.6], 0.04)
        depth = designs["layers"] * designs["thick"] * np.where(designs["grade"] == "high", 1.2, 1.0)
        return conducts / depth + 3 * depth + np.where(designs["of"] == "wool", 0.3, 0.0)

    def function(self, design):
        alone = {name: np.array([[value]]) for name, value in design.items()}
        return {"cost": 1.1 * float(self.emulate(alone)[0, 0]) + 0.02 * float(design["layers"])}


def test_an_emulator_knows_whole_numbers_and_choices():
    problem, rng = Wall(), np.random.default_rng(2)
    space = problem.space
    (emulator,) = emulators_of(problem, space)
    X = space.sample(50, rng)
    told = [{name: np.reshape(of, (1, 1)) for name, of in design.items()} for design in space.decode(X)]
    alone = [float(problem.emulate(design)[0, 0]) for design in told]
    np.testing.assert_allclose(emulator.predict(X), alone, rtol=1e-12)
    between = X + np.where(space.discrete, rng.uniform(-0.1, 0.1, X.shape), 0.0)  # no other design is nearer
    np.testing.assert_array_equal(emulator.predict(between), emulator.predict(X))
    thick = np.linspace(-1, 1, 2001)
    every = [
        space.encode([{"layers": n, "thick": 0.05, "of": of, "grade": grade}])
        for n in range(1, 6)
        for of in ("cork", "brick", "wool")
        for grade in ("low", "high")
    ]
    lines = [np.repeat(x, len(thick), axis=0) for x in every]
    for line in lines:
        line[:, space.columns["thick"].start] = thick
    least = min(emulator.predict(line).min() for line in lines)
    (first,) = Emulated().given((emulator,), maximize=False).propose(space, 0, 1, np.random.default_rng(0))
    assert least - 1e-6 < emulator.predict(first[None])[0] < least + 1e-9


ROD = '''
"""A bar of some metal with so many fins, heated at a place that can be chosen: cool, and not too many fins."""

from dataclasses import dataclass

import numpy as np

from fieldcraft import (
    Axis, Categorical, Continuous, Domain, Field, Integer, LinearEquation, Output, ParametricEquation, Problem,
    SearchSpace,
)
from fieldcraft.physics.parametric.statement import Condition


@dataclass(frozen=True)
class Rod(Problem):
    @property
    def space(self):
        return SearchSpace(
            (Integer("fins", 0, 6), Continuous("at", 0.3, 0.7, "m"), Categorical("metal", ("steel", "brass", "copper")))
        )

    @property
    def outputs(self):
        return (Output("worth", "K"),)

    @property
    def parametric(self):
        domain = Domain((Axis("x", 0.0, 1.0, "m"),))
        return ParametricEquation(
            domain=domain,
            fields=(Field("rise", "K"),),
            equation=self._equation,
            conditions=(Condition("rise", "x", "low", value=0.0, slope=1.0), Condition("rise", "x", "high")),
            cells=(12,),
        )

    def _equation(self, design):
        conducts = np.select([design["metal"] == "copper", design["metal"] == "brass"], [4.0, 2.0], 1.0)
        return LinearEquation(
            lambda points: 2.0 * design["fins"] + 0 * points[:, 0],
            (0.0,),
            ((lambda points: 0 * points[:, 0] - conducts,),),
            lambda points: 40 * np.exp(-(((points[:, 0] - design["at"]) / 0.1) ** 2)),
        )

    def functional(self, fields, axes, designs):
        price = np.select([designs["metal"] == "copper", designs["metal"] == "brass"], [1.2, 0.4], 0.0)
        return fields["rise"].max(axis=1, keepdims=True) + 0.15 * designs["fins"] + price
'''


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    kinds = tmp_path / "plugins" / "problems"
    kinds.mkdir(parents=True)
    (kinds / "rod.py").write_text(ROD)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(kinds.parent))
    return kinds.parent


def test_an_equation_may_depend_on_whole_numbers_and_choices(tmp_path, plugins):
    file, home = tmp_path / "rod.yaml", tmp_path / "home"
    words = {"kind": "emulated", "start": {"n": 4}, "maximizer": SEARCH}
    simulator = {"kind": "stated_equation", "cells": 100}
    file.write_text(
        yaml.safe_dump(
            {**bars.BAR, "name": "rod", "problem": {"kind": "rod"}, "simulator": simulator}
            | {"algorithm": words, "budget": {"trials": 9}}
        )
    )
    finish(file, home, plugins)
    campaign = wire(read_campaign(file), settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, home))
    trials, problem = open_ledger(campaign.settings.ledger).trials("rod"), campaign.problem
    every = [(n, at, of) for n in range(7) for at in np.linspace(0.3, 0.7, 81) for of in ("steel", "brass", "copper")]
    designs = {
        name: np.array(told)[:, None]
        for name, told in zip(("fins", "at", "metal"), zip(*every, strict=True), strict=True)
    }
    coarse, fine = (problem.on_grid(designs, (cells,))[:, 0] for cells in (12, 100))
    first, best = trials[0], every[int(fine.argmin())]
    foreseen = every[int(coarse.argmin())]
    assert (first.design["fins"], first.design["metal"]) == (foreseen[0], foreseen[2])
    assert abs(first.design["at"] - foreseen[1]) < 0.02
    assert min(trial.outputs["worth"] for trial in trials) < fine.min() + 1e-3
    assert trials[-1].origin.remarks["fields"].startswith("8 fields less the emulator's, in ")
    found = min(trials, key=lambda trial: trial.outputs["worth"]).design
    assert (found["fins"], found["metal"]) == (best[0], best[2])


def test_a_network_in_place_of_the_grid_takes_continuous_variables_alone(tmp_path, plugins):
    words = {**bars.BAR, "problem": {"kind": "rod"}, "algorithm": {"kind": "emulated"}, "emulator": {"kind": "pinn"}}
    with pytest.raises(
        InputError, match=r"'pinn' takes continuous variables alone, and others are fins, metal\. Leave"
    ):
        wire(parse(words, "rod.yaml"), settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path))
