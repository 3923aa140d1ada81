"""Fields that a model predicted, beside those that were simulated, on pages of trials and on cards of proposals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from desk_site import TOKENS, Browser, desk, people
from waiting import campaign

from fieldcraft.flows.identity import Person
from fieldcraft.flows.people import decisions
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.records import TrialState

JSON = {"accept": "application/json"}
POD = {
    "problem": {"kind": "pollutant"},
    "simulator": {"kind": "function"},
    "sense": "minimize",
    "algorithm": {
        "start": {"n": 8},
        "surrogate": {"kind": "field_pod"},
        "acquisition": {"kind": "log_ei"},
        "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
    },
    "dispatcher": {"kind": "inline"},
    "batch": 1,
    "budget": {"trials": 11},
    "space": {"M": [9.0, 11.0], "D": [0.06, 0.09], "L": [1.2, 1.8], "tau": [30.1, 30.2]},
}


def figures(browser: Browser, path: str) -> dict[str, dict]:
    return {chart["title"]: chart for chart in json.loads(browser.get(path, **JSON).text)["charts"]}


def test_a_field_that_was_predicted_stands_beside_the_simulated_one_and_on_the_card(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    site = campaign(tmp_path / "home", "human", name="spill", **POD)
    person = Person("ana", "operator")
    while len(site.trials()) < 10:
        site.make_pass()
        waiting = [Choice(trial.id) for trial in site.trials(TrialState.PROPOSED)]
        if waiting and len(site.trials()) < 10:
            decisions.approve(site.ledger, site.settings, person, waiting)
    done, proposal = site.trials()[8:10]
    file = people(tmp_path / "people.yaml")
    browser = Browser(desk(replace(site.settings, people=file))).sign_in(TOKENS["vera"])
    shown = figures(browser, f"/campaign/spill/field/{done.id}")
    assert list(shown) == ["Simulated", "Predicted by the model that proposed it"]
    simulated = np.sort(fields_at(site.settings.fields).read(done.field)["concentration"].values.ravel())
    seen, foreseen = (np.sort(np.ravel(chart["data"][0]["z"])) for chart in shown.values())
    assert seen == pytest.approx(simulated, rel=1e-5)
    assert np.abs(foreseen - simulated).max() < 0.5 * np.ptp(simulated), "a prediction of this very field"
    assert len({(chart["data"][0]["zmin"], chart["data"][0]["zmax"]) for chart in shown.values()}) == 1, "on one scale"
    assert f'data-figures="/campaign/spill/field/{done.id}"' in browser.get(f"/campaign/spill/trial/{done.id}").text
    assert "Predicted of this design by the model" in figures(browser, f"/queue/spill/figures/{proposal.id}")
    decisions.edit(site.ledger, site.settings, person, Choice(proposal.id), {"D": "0.07"})
    assert "Predicted of this design by the model" not in figures(browser, f"/queue/spill/figures/{proposal.id}")
