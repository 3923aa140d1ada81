"""A new target over stored fields: no simulation, nothing twice, nothing adopted where something is wrong."""

import json
import textwrap

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.open_ledger import open_ledger

BAR = {
    "name": "bar",
    "seed": 4,
    "sense": "minimize",
    "problem": {"kind": "cantilever_profile"},
    "simulator": {"kind": "stated_equation", "cells": 50},
    "algorithm": {"kind": "sobol"},
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 4},
}
TIP = {**BAR, "name": "tip", "problem": {"kind": "tip"}, "algorithm": {"kind": "gp_ei", "start": {"n": 4}}}
PLUGIN = '''
"""The same cantilever, by how far its free end hangs."""

from dataclasses import dataclass

from fieldcraft import Output
from fieldcraft.physics.problems.cantilever_profile import CantileverProfile


@dataclass(frozen=True)
class Tip(CantileverProfile):
    @property
    def outputs(self):
        return (Output("tip", "mm"),)

    def functional(self, fields, axes, designs):
        return 1e3 * fields["deflection"][:, -1:]

    def exact(self, points):
        return None

    def optimum(self, sense):
        return None
'''


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with four runs of the cantilever, and a plug-in with another target."""
    plugins = tmp_path / "plugins"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "problems" / "tip.py").write_text(textwrap.dedent(PLUGIN))
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path / "home"))
    finish(written(tmp_path, BAR), tmp_path / "home", plugins)
    return tmp_path


def written(folder, data):
    file = folder / f"{data['name']}.yaml"
    file.write_text(yaml.safe_dump(data))
    return file


def ledger_of(home):
    return open_ledger(settings_from({}, home / "home").ledger)


def retarget(home, data=TIP, source="bar"):
    return main(["retarget", source, str(written(home, data)), "--json"])


def last(capsys):
    """What the last command printed."""
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_every_field_is_read_anew_and_the_campaign_goes_on_from_there(home, capsys):
    assert retarget(home) == 0
    told = last(capsys)
    ledger, fields = ledger_of(home), fields_at(settings_from({}, home / "home").fields)
    old, new = ledger.trials("bar"), ledger.trials("tip")
    assert told == {"campaign": "tip", "source": "bar", "trials": [trial.id for trial in new], "left": {}}
    for before, after in zip(old, new, strict=True):
        assert after.imported and after.spent == 0.0 and after.origin.algorithm == "fields of bar"
        assert (after.design, after.field) == (before.design, before.field)
        assert after.outputs["tip"] == 1e3 * float(fields.read(before.field)["deflection"][-1])
    finish(home / "tip.yaml", home / "home", home / "plugins")
    trials = ledger.trials("tip")
    assert len(trials) == 8 and [trial.imported for trial in trials] == [True] * 4 + [False] * 4
    assert [trial.origin.kind for trial in trials[4:]] == ["model"] * 4  # the fields are start enough
    assert min(trial.outputs["tip"] for trial in trials[4:]) < min(trial.outputs["tip"] for trial in trials[:4])


def test_a_field_of_which_the_computed_value_is_not_finite_is_left_out(home, capsys):
    ledger, fields = ledger_of(home), fields_at(settings_from({}, home / "home").fields)
    tips = {one.id: 1e3 * float(fields.read(one.field)["deflection"][-1]) for one in ledger.trials("bar")}
    limit, text = sorted(tips.values())[0] * 1.0001, PLUGIN.partition("    def functional")[0]
    text = text.replace("CantileverProfile):", "Problem):").replace("import Output", "import Formula, Output, Problem")
    text = text.replace(
        'Output("tip", "mm"),', f'Output("over", formula=Formula("sqrt(tip - {limit!r})")), Output("tip", plain=True)'
    )
    text += "    space = CantileverProfile().space\n\n    def evaluate(self, design, fields):\n"
    text += '        return {"tip": 1e3 * float(fields["deflection"][-1])}\n'
    (home / "plugins" / "problems" / "over.py").write_text(text.replace("class Tip", "class Over"))
    data = {key: value for key, value in TIP.items() if key != "simulator"}
    over = {**data, "name": "over", "problem": {"kind": "over"}, "dispatcher": {"kind": "lab"}}
    assert retarget(home, over) == 0
    told, (lost,) = last(capsys), [name for name, tip in tips.items() if tip < limit]
    assert len(told["trials"]) == 3 and f"is nan for tip {tips[lost]}" in told["left"][lost]
    first = next(one for one in ledger.trials("over"))
    assert first.outputs["over"] == (first.outputs["tip"] - limit) ** 0.5


def test_what_was_read_is_not_read_again_and_later_runs_are(home, capsys):
    assert retarget(home) == 0 and retarget(home) == 0
    assert len(ledger_of(home).trials("tip")) == 4
    assert last(capsys)["trials"] == []
    more = {**BAR, "name": "more", "seed": 9, "budget": {"trials": 2}}
    finish(written(home, more), home / "home", home / "plugins")
    assert retarget(home, source="more") == 0
    assert len(ledger_of(home).trials("tip")) == 6


def test_trials_without_a_field_that_counts_or_outside_the_space_are_left_out_with_the_reason(home, capsys):
    first, *_ = ledger_of(home).trials("bar")
    assert main(["retract", first.id, "--reason", "the clamp slipped"]) == 0
    capsys.readouterr()
    depths = sorted(trial.design["d1"] for trial in ledger_of(home).trials("bar")[1:])
    assert retarget(home, {**TIP, "space": {"d1": [4.0, (depths[0] + depths[1]) / 2]}}) == 0
    told = last(capsys)
    assert len(told["trials"]) == 1 and told["left"][first.id] == "no result counts"
    assert sum("d1" in reason for reason in told["left"].values()) == 2
    assert retarget(home, {**TIP, "name": "none", "space": {"d1": [4.0, depths[0] - 1e-3]}}) == 2
    error = last(capsys)["error"]
    assert "No field of bar can be read anew: bar-0001: no result counts; " in error and ".;" not in error
    assert "none" not in {campaign.name for campaign in ledger_of(home).campaigns()}


def test_a_lost_field_is_left_out_and_read_once_it_is_back(home, capsys):
    second = ledger_of(home).trials("bar")[1]
    folder = home / "home" / "fields" / second.field.digest[:2] / second.field.digest
    folder.rename(home / "aside")
    assert retarget(home) == 0
    told = last(capsys)
    assert len(told["trials"]) == 3 and list(told["left"]) == [second.id]
    assert "is damaged" in told["left"][second.id] and "is missing" in told["left"][second.id]
    (home / "aside").rename(folder)
    assert retarget(home) == 0 and len(last(capsys)["trials"]) == 1
    assert len(ledger_of(home).trials("tip")) == 4


@pytest.mark.parametrize(
    ("changes", "source", "said"),
    [
        ({}, "bra", "'bra' is no other campaign of the ledger. Known: bar."),
        (
            {"name": "bar", "problem": {"kind": "cantilever_profile"}},
            "bar",
            "'bar' is no other campaign of the ledger.",
        ),
        (
            {"problem": {"kind": "chips"}, "simulator": {"kind": "chips"}},
            "bar",
            "the variables are x1 (mm), y1 (mm), x2 (mm), y2 (mm), and those of bar are d1 (mm)",
        ),
        ({"problem": {"kind": "tipp"}}, "bar", "Did you mean 'tip'?"),
    ],
)
def test_a_source_that_does_not_fit_is_refused(home, capsys, changes, source, said):
    assert retarget(home, {**TIP, **changes}, source) == 2
    assert said in last(capsys)["error"]
    assert {campaign.name for campaign in ledger_of(home).campaigns()} == {"bar"}


def test_a_target_that_the_fields_do_not_tell_adopts_nothing(home, capsys):
    file = home / "plugins" / "problems" / "tip.py"
    file.write_text(file.read_text().replace('fields["deflection"]', 'fields["strain"]'))
    assert retarget(home) == 2
    err = last(capsys)["error"]
    assert (
        "bar-0001: problem 'tip' cannot read its outputs from the field. The simulation gave no field 'strain'" in err
    )
    assert "tip" not in {campaign.name for campaign in ledger_of(home).campaigns()}


@pytest.mark.parametrize(
    ("functional", "said"),
    [
        ('1e3 * fields["deflection"] / None', "TypeError: unsupported operand"),
        ('1j * fields["deflection"][:, -1:]', "The functional of Tip gave an array of the type complex128"),
        ('fields["deflection"][:, -1]', "The functional gave an array of the shape (1,): it must be (1, 1)"),
    ],
)
def test_a_target_whose_code_fails_is_told_on_one_line_and_adopts_nothing(home, capsys, functional, said):
    file = home / "plugins" / "problems" / "tip.py"
    file.write_text(file.read_text().replace('1e3 * fields["deflection"][:, -1:]', functional))
    assert retarget(home) == 2
    err = last(capsys)["error"]
    assert f"bar-0001: problem 'tip' cannot read its outputs from the field. {said}" in err
    assert err.endswith("Nothing was adopted.") and "tip" not in {each.name for each in ledger_of(home).campaigns()}


def test_an_ended_campaign_adopts_no_more(home, capsys):
    assert retarget(home) == 0
    finish(home / "tip.yaml", home / "home", home / "plugins")
    finish(written(home, {**BAR, "name": "more", "seed": 9}), home / "home", home / "plugins")
    assert retarget(home, source="more") == 2
    assert "Campaign 'tip' has ended (budget" in last(capsys)["error"]
    assert np.count_nonzero([trial.imported for trial in ledger_of(home).trials("tip")]) == 4
