"""A campaign in MLflow as a user finds it there: resolved options, regret at its end, and models that load."""

import json
from pathlib import Path

import mlflow.pyfunc
import mlflow.tracking
import numpy as np
import pytest
import yaml
from small import finish

import fieldcraft as fc
from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notebook.logged_model import _load_pyfunc
from fieldcraft.physics.problems.branin import Branin

LEAST = 0.39788735772973816  # of Branin's function
CAMPAIGN = {
    "name": "hills",
    "seed": 1,
    "sense": "minimize",
    "problem": {"kind": "branin"},
    "simulator": {"kind": "function"},
    "noise": {"of_sd": 0.01},
    "algorithm": {
        "start": {"n": 3},
        "surrogate": {"kind": "exact_gp"},
        "acquisition": {"kind": "log_ei"},
        "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
    },
    "dispatcher": {"kind": "inline"},
    "budget": {"trials": 4},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("FIELDCRAFT_MLFLOW")
    file = tmp_path / "hills.yaml"
    file.write_text(yaml.safe_dump(CAMPAIGN))
    finish(file, tmp_path / "home")
    assert main(["export", "mlflow", "--home", str(tmp_path / "home")]) == 0
    return tmp_path / "home"


def test_mlflow_shows_what_a_campaign_used_and_found_and_loads_its_models(home, monkeypatch):
    uri = f"sqlite:///{home}/mlflow/mlflow.db"
    client = mlflow.tracking.MlflowClient(uri)
    number = client.get_experiment_by_name("hills").experiment_id
    (shown,) = client.search_runs([number], "tags.`fieldcraft.kind` = 'campaign'")
    assert "null" not in shown.data.params.values() and float(shown.data.params["noise.sd"]) > 0
    campaign = fc.campaign("hills", home=home)
    assert shown.data.metrics["best"] == campaign.trials.value.min()
    (best,) = campaign.trials[campaign.trials.best][["x1", "x2"]].to_numpy()
    assert shown.data.metrics["regret"] == pytest.approx(Branin().exact(best[None])[0] - LEAST, rel=1e-9)
    models = client.search_logged_models([number])
    model = max(models, key=lambda model: int(model.tags["fieldcraft.iteration"]))
    assert len(models) == 2 and model.tags["fieldcraft.trials"] == "4" and model.model_type == "exact_gp"
    place = model.artifact_location.removeprefix("file://")
    monkeypatch.setenv("FIELDCRAFT_HOME", str(home))
    designs = [{"x1": 0.0, "x2": 5.0}, {"x1": 3.0, "x2": 2.5}]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    found = mlflow.pyfunc.load_model(f"models:/{model.model_id}").predict(designs)
    np.testing.assert_array_equal(found, campaign.predict(designs))
    told = json.loads(Path(place, "MLmodel").read_text())
    told["metadata"]["fieldcraft"]["digest"] = "0" * 64
    Path(place, "MLmodel").write_text(json.dumps(told))
    with pytest.raises(InputError, match="has no model of iteration 2 of hills with the digest of this one"):
        _load_pyfunc(place)
