"""The plug-in that drives HEBO, where HEBO itself is not installed; with it, `fieldcraft compare studies/hebo.yaml`."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fieldcraft.flows.cli import main
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.wiring.build import wire
from fieldcraft.models.observations import Observations
from fieldcraft.physics.space import Continuous, SearchSpace

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = ROOT / "studies" / "plugins"
CAMPAIGN = {
    "name": "h",
    "seed": 1,
    "problem": {"kind": "branin"},
    "simulator": {"kind": "exact"},
    "sense": "minimize",
    "algorithm": {"kind": "hebo", "start": {"n": 3}},
    "budget": {"trials": 4},
}
SPACE = SearchSpace((Continuous("x", 0.0, 2.0), Continuous("y", -1.0, 1.0)))
DATA = Observations(X=SPACE.sample(4, np.random.default_rng(0)), y=[1.0, 2.0, 3.0, 4.0], maximize=False)


def ask(tmp_path):
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(PLUGINS)}, tmp_path)
    peer = wire(parse(CAMPAIGN, "campaign"), settings).algorithm.peer
    return peer.suggest(DATA, np.empty((0, 2)), SPACE, 1, np.random.default_rng(0))


@pytest.mark.parametrize(("python", "named"), [(None, "nothing"), ("/no/such/python", "/no/such/python")])
def test_without_its_interpreter_no_campaign_of_the_study_is_begun(tmp_path, capsys, monkeypatch, python, named):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(PLUGINS))
    monkeypatch.setenv("FIELDCRAFT_HOME", str(tmp_path))
    monkeypatch.delenv("HEBO_PYTHON", raising=False)
    if python:
        monkeypatch.setenv("HEBO_PYTHON", python)
    assert main(["compare", str(ROOT / "studies" / "hebo.yaml"), "--out", str(tmp_path / "out")]) != 0
    told = capsys.readouterr().err
    assert f"hebo on heat1: HEBO_PYTHON names {named}, which is no file." in told
    assert "studies/plugins/rivals/hebo.py has the commands" in told
    assert not (tmp_path / "out" / "cells").exists()


def test_a_process_that_ends_says_why_and_the_next_question_begins_another(tmp_path, monkeypatch):
    monkeypatch.setenv("HEBO_PYTHON", sys.executable)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"ended with status 1: ModuleNotFoundError: No module named 'hebo'\. HEBO "
        ):
            ask(tmp_path)
