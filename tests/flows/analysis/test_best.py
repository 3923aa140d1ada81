"""The best design: by its result, and where results are noisy by a model of all of them, trained before the end."""

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from bench import OVEN_CAMPAIGN, Bench, bench
from small import SMALL, finish

from fieldcraft.flows.analysis.best import best_data, best_of
from fieldcraft.flows.cli import main
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.notices.deliver import text_of
from fieldcraft.flows.products import Trained
from fieldcraft.flows.views.outcome import Ran
from fieldcraft.flows.views.summary import summary_data, summary_text
from fieldcraft.flows.views.text import status_text
from fieldcraft.storage import failpoints
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Known, digest_of

NOISY = SMALL + "dispatcher: {kind: inline}\n"
EXACT = NOISY.replace("noise: {sd: 0.5}\n", "")


def ended(folder: Path, text: str, plugins: Path | None = None) -> Ledger:
    """The ledger of ``small`` after its end."""
    folder.mkdir(exist_ok=True)
    (folder / "small.yaml").write_text(text)
    finish(folder / "small.yaml", folder / "home", plugins)
    return open_ledger(folder / "home" / "ledger.sqlite")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Of a noisy campaign that nothing interrupted."""
    return ended(tmp_path_factory.mktemp("whole"), NOISY)


def trained(ledger: Ledger) -> list[tuple[int, int]]:
    """Iteration of each model, and how many trials it saw."""
    models = [product for product in ledger.products("small") if product.step == "train"]
    return [(model.iteration, Trained.of(model).count) for model in models]


def checkpoint(ledger: Ledger, iteration: int) -> str:
    model = ledger.product("small", iteration, "train")
    assert model is not None and model.reference is not None
    return model.reference.digest


def test_a_noisy_campaign_ends_with_a_model_of_all_its_readings_and_an_exact_one_as_before(whole, tmp_path):
    exact = ended(tmp_path, EXACT)
    assert trained(whole) == [(1, 2), (2, 3)]
    assert trained(exact) == [(1, 2)]
    assert len(whole.trials("small")) == len(exact.trials("small")) == 3
    assert whole.campaign("small").finished == exact.campaign("small").finished == "budget: 3 of 3 trials"


MOODY = '''
from dataclasses import dataclass
from fieldcraft.models.surrogates.exact_gp import ExactGP


@dataclass(frozen=True)
class Moody(ExactGP):
    """Learns from two results, and breaks down over three."""

    def fit(self, data, rng, start=None, report=None):
        if len(data) > 2:
            raise RuntimeError("three are\\ntoo many")
        return super().fit(data, rng, start, report)
'''


def plugged(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str) -> Path:
    """A directory of plug-ins with the surrogate ``moody``."""
    (folder / "surrogates").mkdir(parents=True)
    (folder / "surrogates" / "moody.py").write_text(source)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(folder))
    return folder


def test_a_campaign_whose_last_training_fails_ends_all_the_same_and_says_why(tmp_path, monkeypatch):
    kinds = plugged(monkeypatch, tmp_path / "kinds", MOODY)
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    heard = []
    (tmp_path / "small.yaml").write_text(NOISY.replace("exact_gp", "moody"))
    work = tmp_path / "home" / "work" / "small"
    (work / "train-0002").mkdir(parents=True)  # as an interrupted training leaves it
    with listening(lambda event, details: heard.append((event, details))):
        finish(tmp_path / "small.yaml", tmp_path / "home", kinds)
    ledger = open_ledger(tmp_path / "home" / "ledger.sqlite")
    assert ledger.campaign("small").finished == "budget: 3 of 3 trials"
    assert trained(ledger) == [(1, 2)]
    (notice,) = ledger.noticed("small", "last training failed")
    assert notice.payload == {"iteration": 2, "reason": "RuntimeError: three are too many"}
    assert ("last training failed", dict(notice.payload)) in heard
    assert "ends without a model of all its results, since its training failed (RuntimeError: three" in text_of(notice)
    best = best_of(ledger, ledger.campaign("small"), ledger.trials("small"))
    assert best.measured is not None and best.model.iteration == 1
    assert not (work / "train-0002").exists()
    status = status_text(ledger, ledger.campaign("small"))
    assert "\n  model    none of all results: its training failed (RuntimeError: three are too many)\n" in status
    page = tmp_path / "small.html"
    assert main(["report", "small", "--html", str(page), "--home", str(tmp_path / "home")]) == 0
    assert "a model of all results: its training failed (RuntimeError: three are too many)" in page.read_text()


CORRECTED = """
import os
from dataclasses import dataclass

from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.storage.open_ledger import open_ledger


@dataclass(frozen=True)
class Moody(ExactGP):
    \"\"\"Breaks down over three results, while a person corrects one of them.\"\"\"

    def fit(self, data, rng, start=None, report=None):
        ledger = open_ledger(os.environ["HOME_OF_SMALL"] + "/ledger.sqlite")
        if len(data) > 2 and not ledger.corrected("small"):
            trial = ledger.trial("small-0001")
            (old,) = ledger.results(trial.id)
            ledger.correct(trial.id, trial.expect, old.id, {"value": 9.0}, trial.field, "ana", "misread", {})
            raise RuntimeError("of the misread one")
        return super().fit(data, rng, start, report)
"""


def test_a_reading_corrected_while_the_last_training_failed_is_trained_on_all_the_same(tmp_path, monkeypatch):
    kinds = plugged(monkeypatch, tmp_path / "kinds", CORRECTED)
    monkeypatch.setenv("HOME_OF_SMALL", str(tmp_path / "home"))
    ledger = ended(tmp_path, NOISY.replace("exact_gp", "moody"), kinds)
    assert len(ledger.noticed("small", "last training failed")) == 1
    assert trained(ledger) == [(1, 2), (2, 3)]
    assert best_of(ledger, ledger.campaign("small"), ledger.trials("small")).model.iteration == 2


def test_a_start_without_a_model_trains_none_at_its_end(tmp_path):
    words = ("  surrogate: {kind: exact_gp}\n", "  acquisition: {kind: log_ei}\n", "  maximizer: {kind: multistart}\n")
    text = NOISY
    for word in words:
        text = text.replace(word, "")
    assert trained(ended(tmp_path, text)) == []


def die(folder: Path, at: str) -> None:
    failpoints._passages.clear()  # counted by the parent so far
    os.environ["FIELDCRAFT_DIE_AT"] = at
    ended(folder, NOISY)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_pass_killed_around_its_last_training_ends_with_the_same_model(whole, tmp_path, moment):
    folder = tmp_path / "killed"
    child = multiprocessing.get_context("fork").Process(target=die, args=(folder, f"ledger.note.train.{moment}#2"))
    child.start()
    child.join(100)
    assert child.exitcode == -signal.SIGKILL
    killed = open_ledger(folder / "home" / "ledger.sqlite")
    assert killed.campaign("small").finished is None
    assert trained(killed) == [(1, 2), (2, 3)][: 1 if moment == "before" else 2]
    killed = ended(folder, NOISY)
    assert trained(killed) == trained(whole)
    assert checkpoint(killed, 2) == checkpoint(whole, 2)
    assert killed.campaign("small").finished == "budget: 3 of 3 trials"


@pytest.fixture
def oven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three parts that a laboratory measured: strong and porous, weaker, weakest; and a model that has a view of it."""
    made = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    made.order()
    for number, (strength, porosity) in enumerate([(60.0, 0.5), (52.0, -0.1), (50.0, -0.4)], start=1):
        values = ("--value", f"strength={strength}", "--value", f"porosity={porosity}")
        assert made.run("record", f"oven-{number:04d}", *values)[0] == 0
    return made


def recommend(made: Bench, iteration: int = 1, seen: dict[str, Any] | None = None, **changes: Any) -> None:
    """Write a model down that prefers the third part; trained on the results that were ``seen``, if they are given."""
    said = {"trial": "oven-0003", "mean": 50.25, "sd": 0.5, "feasible": True, "probability": 0.9}
    said["constraints"] = {"porosity": {"mean": -0.3, "sd": 0.2}}
    payload = {"surrogate": {"kind": "exact_gp"}, "metrics": {}, "seconds": 1.0, "trials": ["oven-0001"]}
    more = {"environment": {}, "recommended": {**said, **changes}, **({"seen": seen} if seen else {})}
    made.ledger.note("oven", iteration, "train", {**payload, **more}, None)


def test_status_names_the_best_by_the_model_and_the_best_reading(oven):
    (before,) = oven.json("status", "oven")
    assert (before["best"]["trial"], before["best_by_model"], before["best_design"]) == ("oven-0002", None, "oven-0002")
    recommend(oven)
    (data,) = oven.json("status", "oven")
    assert (data["best"]["trial"], data["best_design"]) == ("oven-0002", "oven-0003")
    model = data["best_by_model"]
    assert (model["trial"], model["mean"], model["sd"], model["feasible"]) == ("oven-0003", 50.25, 0.5, True)
    assert model["constraints"] == {"porosity": {"mean": -0.3, "sd": 0.2}}
    lines = oven.run("status", "oven")[1].splitlines()
    assert (
        "  best by the model strength 50.25 +- 0.5 MPa, porosity -0.3 +- 0.2 % in oven-0003 (model of iteration 1, of "
        "1 result; feasible with probability 0.9)" in lines
    )
    assert "  best result       strength 52 MPa, porosity -0.1 % in oven-0002" in lines


def test_a_model_that_believes_no_design_to_be_feasible_says_so_and_the_best_is_the_best_reading(oven):
    recommend(oven, trial="oven-0001", feasible=False, probability=0.2)
    (data,) = oven.json("status", "oven")
    assert (data["best_by_model"]["trial"], data["best_design"]) == ("oven-0001", "oven-0002")
    assert "  none is feasible  by the model; most probably strength 50.25" in oven.run("status", "oven")[1]


def test_a_model_whose_trial_was_retracted_or_that_recommends_nothing_leaves_the_readings(oven):
    recommend(oven)
    assert oven.run("retract", "oven-0003", "--reason", "the scale stuck")[0] == 0
    (data,) = oven.json("status", "oven")
    assert (data["best_by_model"], data["best_design"]) == (None, "oven-0002")
    older = {"surrogate": None, "metrics": {}, "seconds": 1.0, "trials": [], "environment": {}}
    oven.ledger.note("oven", 2, "train", older, None)
    assert oven.json("status", "oven")[0]["best_design"] == "oven-0002"


def test_a_model_whose_trial_was_corrected_since_leaves_the_results_until_they_are_what_it_saw(oven):
    known = [result.id for result in oven.ledger.campaign_results("oven")]
    recommend(oven, seen={"count": 3, "until": max(known), "digest": digest_of(known)})
    for strength, best in (("41", (None, "oven-0002")), ("50", ("oven-0003", "oven-0003"))):
        words = ("correct", "oven-0003", "--value", f"strength={strength}", "--reason", "the scale stuck")
        assert oven.run(*words)[0] == 0
        (data,) = oven.json("status", "oven")
        assert (data["best_by_model"] and data["best_by_model"]["trial"], data["best_design"]) == best


def test_the_end_of_a_run_the_page_and_a_comparison_name_both(oven, tmp_path):
    recommend(oven)
    summed = summary_data(Ran("oven", "budget", True, 1.0), oven.settings)
    text = summary_text(summed, oven.file)
    assert "  best by the model strength 50.25 +- 0.5 MPa" in text and "  best result       strength 52 MPa" in text
    assert "fieldcraft trace oven-0003" in text
    assert json.loads(json.dumps(summed))["best_by_model"]["trial"] == "oven-0003"
    assert oven.run("report", "oven", "--html", tmp_path / "oven.html")[0] == 0
    page = (tmp_path / "oven.html").read_text()
    assert "<dt>best by the model</dt><dd>50.25 +- 0.5 MPa<span>in oven-0003; model of iteration 1, 1 result" in page
    assert "<dt>best result</dt><dd>52 MPa<span>in oven-0002" in page
    assert "<strong>Best design, by the model: </strong>" in page
    spec = {**oven.ledger.campaign("oven").spec, "name": "other"}
    oven.ledger.create_campaign("other", spec, digest_of(spec), oven.ledger.campaign("oven").environment, "test")
    sides = oven.json("compare-runs", "oven", "other")["campaigns"]
    assert [side["best_by_model"] for side in sides] == [{"trial": "oven-0003", "mean": 50.25, "sd": 0.5}, None]
    assert [side["best_trial"] for side in sides] == ["oven-0002", None]


@pytest.mark.parametrize(
    ("noise", "best"), [({"noise": {"sd": 0.5}}, "c-0001"), ({"dispatcher": {"noisy": True}}, "c-0002")]
)
def test_a_model_is_not_believed_against_a_reading_of_the_constraints_that_is_exact(tmp_path, noise, best):
    ledger = open_ledger(tmp_path / "ledger.sqlite", create=True)
    spec = {"sense": "minimize", "simulator": {"kind": "function"}, **noise}
    environment = {"outputs": [{"name": "cost", "unit": "EUR"}, {"name": "g", "unit": ""}], "units": {"x": ""}}
    campaign = ledger.create_campaign("c", spec, digest_of(spec), environment, "test")
    payload = {"surrogate": None, "metrics": {}, "seconds": 1.0, "trials": [], "environment": {}}
    said = {"trial": "c-0002", "mean": 4.0, "sd": 0.5, "feasible": True, "probability": 0.6}
    ledger.note("c", 1, "train", {**payload, "recommended": said}, None)
    readings = [{"cost": 5.0, "g": -1.0}, {"cost": 4.0, "g": 1e-5}]
    known = [Known(design={"x": float(n)}, outputs=outputs) for n, outputs in enumerate(readings)]
    trials = ledger.adopt("c", known, digest_of(readings), "import", "test")
    found = best_data(best_of(ledger, campaign, trials))
    assert found["best_design"] == best and (found["best_by_model"] is None) is (best == "c-0001")


def test_where_readings_are_exact_no_model_is_asked(tmp_path):
    ledger = ended(tmp_path, EXACT)
    said = {"trial": "small-0001", "mean": 0.0, "sd": 1.0}
    payload = {"surrogate": None, "metrics": {}, "seconds": 1.0, "trials": [], "environment": {}, "recommended": said}
    ledger.note("small", 7, "train", payload, None)
    campaign, trials = ledger.campaign("small"), ledger.trials("small")
    assert best_data(best_of(ledger, campaign, trials))["best_by_model"] is None
