"""A campaign on a problem that states curved constraints: every design keeps them, and what cannot is refused."""

from pathlib import Path

import pytest
import yaml
from small import SMALL, finish

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.wiring.build import wire
from fieldcraft.storage.open_ledger import open_ledger

PLUGINS = str(Path(__file__).parents[1] / "plugins")


def written(tmp_path, **algorithm):
    file = tmp_path / "pond.yaml"
    data = {
        **yaml.safe_load(SMALL),
        "name": "pond",
        "problem": {"kind": "pond"},
        "noise": {"sd": 0.01},
        "algorithm": {"start": {"n": 4}, **algorithm},
        "dispatcher": {"kind": "inline"},
        "budget": {"trials": 5},
    }
    file.write_text(yaml.safe_dump(data))
    return file


def wired(file, home):
    return wire(read_campaign(file), settings_from({"FIELDCRAFT_PLUGINS": PLUGINS}, home))


def test_a_certified_campaign_stays_on_the_land(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", PLUGINS)
    file, home = written(tmp_path, kind="gp_ucb", maximizer={"kind": "certified"}), tmp_path / "home"
    finish(file, home, Path(PLUGINS))
    space, trials = wired(file, home).space, open_ledger(home / "ledger.sqlite").trials("pond")
    assert len(trials) == 5
    for trial in trials:
        space.check(trial.design)
    assert trials[4].origin.certificate.status == "optimal"


def test_a_rival_that_cannot_keep_a_curved_constraint_is_refused_before_anything_begins(tmp_path):
    with pytest.raises(
        InputError, match=r"known constraints \(east\^2 \+ north\^2 <= 16; -east.*another algorithm"
    ):
        wired(written(tmp_path, kind="optuna_tpe"), tmp_path)
