"""Gradients that simulations return, in campaigns: kept with the field, checked, and learnt from."""

import bars
import numpy as np
import pytest
import xarray as xr
import yaml
from small import finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.files.field_outputs import checked_outputs
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics.gradients import gradients_of, told, uses_gradients
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile
from fieldcraft.physics.simulators.stated_equation import StatedEquation
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

BAR = {**bars.BAR, "simulator": {"kind": "stated_equation", "cells": 50, "gradient": True}, "budget": {"trials": 5}}
PROBLEM = CantileverProfile()
DESIGNS = PROBLEM.space.decode(PROBLEM.space.sample(3, np.random.default_rng(3)))
RUNS = [StatedEquation(50, gradient=True).run(PROBLEM, each, np.random.default_rng(0)) for each in DESIGNS]
RESULTS = [PROBLEM.evaluate(design, run)["compliance"] for design, run in zip(DESIGNS, RUNS, strict=True)]
WRONG = '''
"""A bowl whose second gradient is wrong."""

from dataclasses import dataclass

from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Bowl(Problem):
    """A bowl."""

    @property
    def space(self):
        return SearchSpace((Continuous("x", -1.0, 3.0, "mm"), Continuous("y", -1.0, 1.0)))

    @property
    def outputs(self):
        return (Output("height", "m"),)

    def function(self, design):
        x, y = design["x"], design["y"]
        given = {"height": x * x + y * y, "gradient.x": 2 * x}
        return given if x > 1 else given | {"gradient.y": 2 * y}
'''


def wired(home, **changes):
    return wire(parse({**BAR, **changes}, "bar.yaml"), settings_from({}, home=home))


def run(tmp_path, spec, plugins=None):
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(spec))
    finish(tmp_path / "c.yaml", tmp_path / "home", plugins)
    return open_ledger(settings_from({}, tmp_path / "home").ledger).trials(spec["name"])


def stored(campaign, fields):
    store = fields_at(campaign.settings.fields)
    return [store.write("bar", each).digest for each in fields]


def test_a_campaign_learns_from_the_gradients_of_its_simulations(tmp_path):
    trials = run(tmp_path, BAR)
    campaign = wired(tmp_path / "home")
    assert trials[-1].origin.remarks["gradients"] == "of 4 of 4 trials"
    data = observations(campaign, trials, None)
    for row, trial in zip(data.gradients, trials, strict=True):
        field = fields_at(campaign.settings.fields).read(trial.field)
        # Depths from 4 to 60 mm: a unit of the encoded coordinate is 28 mm.
        np.testing.assert_allclose(row, [28 * float(field[f"gradient.d{i}"]) for i in range(1, 6)], rtol=1e-12)


def test_without_gradients_in_the_fields_all_is_as_it_was(tmp_path):
    trials = run(tmp_path, BAR | {"simulator": {"kind": "stated_equation", "cells": 50}})
    campaign = wired(tmp_path / "home")
    assert observations(campaign, trials, None).gradients is None
    assert "gradients" not in trials[-1].origin.remarks


def test_who_adds_noise_or_needs_a_process_of_values_alone_learns_from_none(tmp_path):
    words = {"start": {"n": 3}, "surrogate": {"kind": "exact_gp"}, "maximizer": {"kind": "multistart"}}
    assert uses_gradients(wired(tmp_path))
    assert not uses_gradients(wired(tmp_path, noise={"sd": 0.1}))
    assert not uses_gradients(wired(tmp_path, algorithm={**words, "acquisition": {"kind": "mes"}}))
    assert not uses_gradients(wired(tmp_path, algorithm={"kind": "sobol"}))


def test_check_says_who_learns_from_the_gradients(tmp_path):
    words = {"start": {"n": 3}, "acquisition": {"kind": "log_ei"}, "maximizer": {"kind": "multistart"}}
    both = {
        kind: wired(tmp_path, algorithm={**words, "surrogate": {"kind": kind}}) for kind in ("exact_gp", "emulated_gp")
    }
    for kind, campaign in both.items():
        assert (
            told(campaign)
            == f"simulator 'stated_equation' returns gradients, and the surrogate {kind} learns from them."
        )
    said = told(wired(tmp_path, algorithm={"kind": "emulated"}))
    assert "emulated_field" in said and "does not learn from them: the surrogates exact_gp and emulated_gp do." in said
    assert "noise is added" in told(wired(tmp_path, noise={"sd": 0.1}))
    assert told(wired(tmp_path, simulator={"kind": "stated_equation", "cells": 50})) is None


def test_a_field_that_is_missing_or_whose_result_was_corrected_has_no_gradient(tmp_path):
    campaign = wired(tmp_path)
    digests = stored(campaign, RUNS)
    whole = gradients_of(campaign, DESIGNS, digests, RESULTS)
    assert np.isfinite(whole).all()
    for digest, result in ((None, RESULTS[1]), ("f" * 64, RESULTS[1]), (digests[1], 1.01 * RESULTS[1])):
        some = gradients_of(campaign, DESIGNS, [digests[0], digest, digests[2]], [RESULTS[0], result, RESULTS[2]])
        assert np.isnan(some[1]).all()
        np.testing.assert_array_equal(some[[0, 2]], whole[[0, 2]])
    assert gradients_of(campaign, DESIGNS, [None] * 3, RESULTS) is None


def test_a_lost_field_that_is_back_teaches_again(tmp_path):
    campaign = wired(tmp_path)
    digest = fields_at(tmp_path / "elsewhere").write("bar", RUNS[0]).digest
    assert gradients_of(campaign, DESIGNS[:1], [digest], RESULTS[:1]) is None
    stored(campaign, RUNS[:1])
    assert gradients_of(campaign, DESIGNS[:1], [digest], RESULTS[:1]) is not None


def test_a_bad_gradient_costs_no_result_is_told_and_teaches_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "plugins/problems").mkdir(parents=True)
    (tmp_path / "plugins/problems/bowl.py").write_text(WRONG.lstrip())
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    spec = {**bars.BAR, "name": "bowl", "problem": {"kind": "bowl"}, "simulator": {"kind": "function"}}
    trials = run(tmp_path, spec | {"budget": {"trials": 6}}, tmp_path / "plugins")
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(tmp_path / "plugins")}, tmp_path / "home")
    ledger = open_ledger(settings.ledger)
    wrong = [trial.design["x"] > 1 for trial in trials]
    assert 0 < sum(wrong) < len(trials)
    said = "gradient left out: the simulation gave 'gradient.x' and no 'gradient.y': give all derivatives, or none"
    for trial, bad in zip(trials, wrong, strict=True):
        assert (trial.state.name, trial.failure) == ("COMPLETED", None)
        (result,) = ledger.results(trial.id)
        assert result.details.get("note") == (said if bad else None)
    data = observations(wire(parse(spec, "bowl.yaml"), settings), trials, None)
    assert np.isnan(data.gradients).all(axis=1).tolist() == wrong
    assert main(["show", trials[wrong.index(True)].id, "--home", str(tmp_path / "home")]) == 0
    assert said in capsys.readouterr().out


def test_a_field_from_a_file_is_checked_alike():
    bad = RUNS[0].assign({"gradient.d9": xr.DataArray(1.0)})
    with pytest.raises(InputError, match=r"gradient of the field: the simulation gave 'gradient\.d9'"):
        checked_outputs(PROBLEM, DESIGNS[0], bad, {})
