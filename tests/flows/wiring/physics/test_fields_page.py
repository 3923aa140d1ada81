"""The problem that docs/fields.md teaches, as it stands there, against the fin's closed form."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from small import finish

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.wiring.build import wire
from fieldcraft.storage.open_ledger import open_ledger

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "fields.md").read_text()


def profit(length, thickness):
    """sqrt(2 h k t) T tanh(L sqrt(2 h / (k t))) less the price of the weight, in W/m, of a fin in mm."""
    length, thickness = 1e-3 * length, 1e-3 * thickness
    heat = math.sqrt(2 * 40 * 200 * thickness) * 60 * math.tanh(length * math.sqrt(2 * 40 / (200 * thickness)))
    return heat - 1e6 * length * thickness


@pytest.fixture
def fin(tmp_path, monkeypatch):
    """The campaign file of the page, its problem in a plug-in directory."""
    program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    campaign = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
    plugins = tmp_path / "plugins"
    (plugins / "problems").mkdir(parents=True)
    (plugins / "problems" / "fin.py").write_text(program)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(plugins))
    file = tmp_path / "fin.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(campaign), "dispatcher": {"kind": "inline"}}))
    return file, plugins


def test_the_problem_of_the_page_is_a_fin_and_its_campaign_finds_the_best_one(fin, tmp_path):
    file, plugins = fin
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(plugins)}, tmp_path / "home")
    problem = wire(read_campaign(file), settings).problem
    designs = {"length": np.array([[20.0], [70.0]]), "thickness": np.array([[2.0], [1.0]])}
    exact = [[profit(20.0, 2.0)], [profit(70.0, 1.0)]]
    np.testing.assert_allclose(problem.on_grid(designs, (400,)), exact, rtol=1e-4)
    np.testing.assert_allclose(problem.emulate(designs), exact, rtol=0.05)
    finish(file, tmp_path / "home", plugins)
    results = [trial.outputs["profit"] for trial in open_ledger(settings.ledger).trials("fin")]
    best = max(profit(length, thickness) for length in range(10, 81) for thickness in np.linspace(0.5, 3.0, 51))
    assert len(results) == 8 and max(results) > best - 0.2 and results[0] > best - 1.0
