"""Problems whose stated equation has nonlinear terms, in campaigns: emulated, and refused where they are wrong."""

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.storage.open_ledger import open_ledger

HOT = '''
"""A slab that heats itself, u'' + k e^u + q = 0: how much of both for a mean of 0.2."""

from dataclasses import dataclass

import numpy as np

from fieldcraft import Axis, Condition, Continuous, Domain, Field, LinearEquation, Nonlinear, Output, ParametricEquation
from fieldcraft import Problem, SearchSpace


@dataclass(frozen=True)
class Hot(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("k", 0.1, 2.5), Continuous("q", 0.0, 2.0)))

    @property
    def outputs(self):
        return (Output("miss"),)

    @property
    def parametric(self):
        return ParametricEquation(
            domain=Domain((Axis("x", 0.0, 1.0),)),
            fields=(Field("u"),),
            equation=lambda design: LinearEquation(
                0.0, (0.0,), ((1.0,),), lambda points: -design["q"] + 0 * points[:, 0]
            ),
            conditions=(Condition("u", "x", "low"), Condition("u", "x", "high")),
            cells=(8,),
            nonlinear=self.heat,
        )

    def heat(self, points, fields, design):
        heat = design["k"] * np.exp(fields[0].value)
        return (Nonlinear(heat, (heat,)),)

    def functional(self, fields, axes, designs):
        return (fields["u"].mean(axis=1, keepdims=True) - 0.2) ** 2 + 0.01 * designs["k"]
'''
CAMPAIGN = {
    "name": "hot",
    "seed": 2,
    "sense": "minimize",
    "problem": {"kind": "hot"},
    "simulator": {"kind": "stated_equation", "cells": 80},
    "algorithm": {
        "start": {"n": 5},
        "surrogate": {"kind": "emulated_field"},
        "acquisition": {"kind": "log_ei"},
        "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
    },
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 6},
}


def plugged(tmp_path, monkeypatch, program=HOT):
    folder = tmp_path / "plugins"
    (folder / "problems").mkdir(parents=True)
    (folder / "problems/hot.py").write_text(program)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder))
    return settings_from({"FIELDCRAFT_PLUGINS": str(folder)}, tmp_path / "home"), folder


def test_a_campaign_learns_from_the_fields_of_a_nonlinear_equation(tmp_path, monkeypatch):
    settings, folder = plugged(tmp_path, monkeypatch)
    (tmp_path / "hot.yaml").write_text(yaml.safe_dump(CAMPAIGN))
    finish(tmp_path / "hot.yaml", tmp_path / "home", folder)
    trials = open_ledger(settings.ledger).trials("hot")
    problem = wire(parse(CAMPAIGN, "hot.yaml"), settings).problem
    designs = {name: each.reshape(-1, 1) for name, each in zip("kq", np.mgrid[0.1:2.5:40j, 0:2:40j], strict=True)}
    best = problem.on_grid(designs, (80,)).min()
    assert trials[-1].outputs["miss"] < best + 1e-3 < min(trial.outputs["miss"] for trial in trials[:-1])
    assert "fields less the emulator's" in trials[-1].origin.remarks["fields"]
    assert float(trials[-1].origin.remarks["equation"].split()[3]) < 0.01


def test_a_wrong_derivative_is_refused_before_the_campaign_begins(tmp_path, monkeypatch):
    settings, _ = plugged(
        tmp_path, monkeypatch, HOT.replace("Nonlinear(heat, (heat,))", "Nonlinear(heat, (2 * heat,))")
    )
    with pytest.raises(InputError, match=r"problem 'hot': .* The nonlinear term of equation 1 states the derivative"):
        wire(parse(CAMPAIGN, "hot.yaml"), settings)


def test_a_network_refuses_nonlinear_terms(tmp_path, monkeypatch):
    settings, _ = plugged(tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"learns linear equations, and that of problem 'hot' has nonlinear terms"):
        wire(parse({**CAMPAIGN, "emulator": {"kind": "pinn"}}, "hot.yaml"), settings)
