"""Predictions for a trial's design as it is and as a person would edit it, by stored models, here and in a process."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import warm_start
from desk_site import TOKENS, Browser, desk, people
from small import finish

import fieldcraft as fc
from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.identity import Person
from fieldcraft.flows.notebook.open_campaign import OpenCampaign
from fieldcraft.flows.people import decisions
from fieldcraft.flows.predictions import process
from fieldcraft.flows.predictions.of_trial import Foreseen, Models, foreseen
from fieldcraft.flows.predictions.process import Busy, ModelProcess, Unavailable
from fieldcraft.flows.rules.trial_labels import Choice
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.storage.fields import fields_at

CEI = {
    "start": {"n": 5},
    "surrogate": {"kind": "exact_gp"},
    "acquisition": {"kind": "log_ei"},
    "maximizer": {"kind": "multistart", "n_samples": 64, "n_starts": 2},
    "constraints": {"surrogate": {"kind": "exact_gp"}, "rule": {"kind": "probability"}},
}


@pytest.fixture(autouse=True)
def _running() -> Iterator[None]:
    """One event loop for all browsers of a test."""
    with asyncio.Runner() as Browser.runner:
        yield


def sent(campaign: OpenCampaign, n: int) -> pd.DataFrame:
    """Designs that were asked for, approved, and given to whoever measures."""
    campaign.decide(campaign.ask(n).index, "approve")
    return campaign.ask(n)


@pytest.fixture(scope="module")
def _rod(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five results of a start, and a proposal of a model that has seen them."""
    home = tmp_path_factory.mktemp("predictions") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_MLFLOW", "off")
        space = {"x": (0.0, 1.0, "m"), "power": (0.0, 50.0, "W")}
        results = {"minimize": {"spread": "K"}, "constraints": {"heat": "J"}}
        rod = fc.campaign("rod", space=space, **results, budget=9, algorithm=CEI, approval="human", home=home)
        for trial, row in sent(rod, 5).iterrows():
            rod.tell(trial, {"spread": (row.x - 0.4) ** 2 + 0.01 * row.power, "heat": row.power - 20 * row.x - 15})
        rod.ask()
    return home


@pytest.fixture
def site(_rod, tmp_path, monkeypatch):
    """The campaign in a home of its own, which a test may change."""
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    monkeypatch.setenv("FIELDCRAFT_TOKEN", TOKENS["ana"])
    return site_of(str(shutil.copytree(_rod, tmp_path / "home")), "rod", None)


def test_the_model_that_proposed_a_design_says_the_same_again_and_knows_what_it_was_trained_on(site):
    trial = site.ledger.trial("rod-0006")
    found = foreseen(site, trial, {}, Models())
    assert (found.outputs[0].mean, found.outputs[0].sd) == pytest.approx((trial.origin.mean, trial.origin.sd), rel=1e-9)
    assert (found.results, found.iteration, found.proposed) == (5, trial.iteration, True)
    assert [each.unit for each in found.outputs] == ["K", "J"]
    assert "which proposed this trial, trained on 5 results" in found.text
    assert Foreseen.of(json.loads(json.dumps(found.data()))) == found


def test_at_a_result_that_a_model_has_seen_it_predicts_that_result_with_its_constraint(site):
    seen, trial = site.ledger.trial("rod-0003"), site.ledger.trial("rod-0006")
    found = foreseen(site, trial, {name: repr(value) for name, value in seen.design.items()}, Models())
    assert found.design == seen.design != trial.design
    for each in found.outputs:
        assert each.mean == pytest.approx(seen.outputs[each.output], abs=max(3 * each.sd, 1e-3))
    sure = found.feasible if seen.outputs["heat"] <= 0 else 1 - found.feasible
    assert sure > 0.9


def test_every_objective_is_predicted_and_nothing_is_said_of_constraints_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    goals = {"minimize": {"spread": "K"}, "maximize": {"reach": "m"}}
    algorithm = {"kind": "gp_ehvi", "start": {"n": 4}, "maximizer": CEI["maximizer"]}
    pair = fc.campaign("pair", space={"x": (0.0, 1.0)}, **goals, budget=6, algorithm=algorithm, home=tmp_path)
    for trial, row in pair.ask(4).iterrows():
        pair.tell(trial, {"spread": (row.x - 0.4) ** 2, "reach": 3 + row.x})
    pair.ask()
    site = site_of(str(tmp_path), "pair", None)
    seen = site.ledger.trial("pair-0002")
    found = foreseen(site, site.ledger.trial("pair-0005"), {"x": repr(seen.design["x"])}, Models())
    assert [(each.output, each.unit) for each in found.outputs] == [("spread", "K"), ("reach", "m")]
    for each in found.outputs:
        assert each.mean == pytest.approx(seen.outputs[each.output], abs=max(3 * each.sd, 1e-3))
    assert found.feasible is None


def test_of_several_objectives_each_is_predicted_under_its_own_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    senses = {"minimize": {"spread": "K"}, "maximize": {"gain": "W"}, "constraints": {"heat": "J"}}
    words = CEI | {"acquisition": {"kind": "log_ehvi"}}
    space = {"x": (0.0, 1.0, "m"), "power": (0.0, 50.0, "W")}
    rod = fc.campaign("rod", space=space, **senses, budget=9, algorithm=words, approval="human", home=tmp_path)
    for trial, row in sent(rod, 5).iterrows():
        told = {"spread": (row.x - 0.4) ** 2, "gain": 1000 + row.power, "heat": row.power - 20 * row.x - 15}
        rod.tell(trial, told)
    rod.ask()
    site = site_of(str(tmp_path), "rod", None)
    seen = site.ledger.trial("rod-0002")
    found = foreseen(site, seen, {}, Models())
    assert [(each.output, each.unit) for each in found.outputs] == [("spread", "K"), ("gain", "W"), ("heat", "J")]
    for each in found.outputs:
        assert each.mean == pytest.approx(seen.outputs[each.output], abs=max(3 * each.sd, 1e-3))


def test_where_the_model_of_a_trial_is_lost_the_newest_answers_and_without_any_the_reason_is_told(site):
    rod = fc.campaign("rod", home=site.campaign.settings.home)
    rod.tell(sent(rod, 1).index[0], {"spread": 0.2, "heat": -1.0})
    rod.ask()
    trial, store = site.ledger.trial("rod-0006"), fields_at(site.campaign.settings.fields)
    assert foreseen(site, trial, {}, Models()).results == 5
    kept = [site.ledger.product("rod", n, "train") for n in (trial.iteration, trial.iteration + 1)]
    shutil.rmtree(store.place(kept[0].reference))
    found = foreseen(site, trial, {}, Models())
    assert (found.results, found.proposed) == (6, False) and "the newest one" in found.text
    shutil.rmtree(store.place(kept[1].reference))
    with pytest.raises(InputError, match=f"the model of iteration {trial.iteration} cannot be restored"):
        foreseen(site, trial, {}, Models())


def test_before_there_is_a_model_and_without_a_surrogate_nothing_is_predicted(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    for name, algorithm, reason in (
        ("young", {"kind": "gp_ei"}, "young has no model yet"),
        ("points", {"start": {"n": 3}}, "sobol proposes designs and predicts nothing"),
    ):
        fc.campaign(name, space={"x": (0.0, 1.0)}, minimize="y", budget=5, algorithm=algorithm, home=tmp_path).ask()
        site = site_of(str(tmp_path), name, None)
        with pytest.raises(InputError, match=reason):
            foreseen(site, site.ledger.trial(f"{name}-0001"), {}, Models())


def test_the_command_predicts_an_edit_that_it_does_not_make(site, capsys):
    home = str(site.campaign.settings.home)
    assert main(["predict", "rod-0006", "x=0.25", "--json", "--home", home]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["design"]["x"] == 0.25 and told["outputs"][0]["sd"] > 0
    assert site.ledger.trial("rod-0006").revision == 1
    assert main(["predict", "rod-0006", "x=7", "--home", home]) == 2
    assert "outside [0.0, 1.0] m" in capsys.readouterr().err


def test_what_was_predicted_before_an_edit_is_not_shown_for_the_edited_design(site, tmp_path, capsys):
    rod, trial = fc.campaign("rod", home=site.campaign.settings.home), site.ledger.trial("rod-0006")
    told = f"{trial.origin.mean:.5g}"

    def row() -> str:
        file = tmp_path / "rod.html"
        assert main(["report", "rod", "--html", str(file), "--home", str(site.campaign.settings.home)]) == 0
        found = [line for line in file.read_text().split("<tr>") if ">rod-0006</td>" in line]
        return "".join(line.partition("</tr>")[0] for line in found)

    assert rod.ask().predicted.tolist() == [trial.origin.mean] and told in row()
    rod.decide("rod-0006", "edit", "cooler", design={"x": 0.25})
    assert rod.ask().predicted.isna().all() and rod.ask().sd.isna().all()
    assert told not in row() and "edited" in row()
    home = str(site.campaign.settings.home)
    assert main(["show", "rod-0006", "--home", home]) == main(["queue", "rod", "--home", home]) == 0
    assert capsys.readouterr().out.count("'fieldcraft predict rod-0006'") == 2


def test_the_desk_predicts_what_was_edited_and_what_somebody_would_edit(site, monkeypatch):
    monkeypatch.setattr(process, "begun", warm_start.Answering)
    settings, trial = site.campaign.settings, site.ledger.trial("rod-0006")
    settings = replace(settings, people=Path(os.environ["FIELDCRAFT_PEOPLE"]))
    by_hand = foreseen(site, trial, {"x": "0.25"}, Models())
    app = desk(settings)
    ana, vera = (Browser(app).sign_in(TOKENS[name]) for name in ("ana", "vera"))
    path, models = "/queue/rod/predicted/rod-0006", app.app.state.models
    try:
        said = ana.get(f"{path}?x.x=0.25").said
        assert f"spread {by_hand.outputs[0].mean:.3f}"[:10] in said and "heat" in said
        assert "feasible with probability" in said and "trained on 5 results" in said
        assert vera.get(f"{path}?x.x=0.25").status == 403
        assert "outside [0.0, 1.0] m" in ana.get(f"{path}?x.x=2").said
        assert "The ledger holds no campaign 'other'" in ana.get("/queue/other/predicted/rod-0006").said
        decisions.edit(site.ledger, settings, Person("ben", "operator"), Choice("rod-0006"), {"x": "0.25"})
        asked, said = f'data-predicted="{path}"', vera.get(path).said
        assert f"spread {by_hand.outputs[0].mean:.3f}"[:10] in said and "asked just now" in said
        assert asked in ana.get("/campaign/rod/trial/rod-0006").text
        os.kill(models._child.pid, signal.SIGKILL)
        assert "trained on 5 results" in ana.get(path).said, "another process answers where one has ended"
    finally:
        models.close()


LOUD = """print("imported")

from dataclasses import dataclass

from fieldcraft.physics.problems.branin import Branin


@dataclass(frozen=True)
class Loud(Branin):
    def cost(self, design):
        print("asked what it costs")
        return 1.0
"""


def test_what_code_of_a_campaign_prints_is_no_answer_and_a_process_that_is_stuck_is_not_waited_for(
    tmp_path, monkeypatch
):
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    (tmp_path / "plugins" / "problems" / "loud.py").write_text(LOUD)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    file, home = tmp_path / "loud.yaml", tmp_path / "home"
    file.write_text(
        "name: loud\nseed: 1\nsense: minimize\nproblem: {kind: loud}\nsimulator: {kind: function}\n"
        "dispatcher: {kind: inline}\nalgorithm: {kind: gp_ei, start: {n: 2}}\nbudget: {trials: 3}\n"
    )
    finish(file, home, tmp_path / "plugins")
    models = ModelProcess(home)
    try:
        told = [asyncio.run(models.ask("loud", f"loud-000{number}", {})) for number in (3, 2, 3)]
        monkeypatch.setattr(process, "ANSWER_S", 0.5)
        os.kill(models._child.pid, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="did not answer within"):  # it takes no part of a long question
            asyncio.run(asyncio.wait_for(models.ask("loud", "loud-0003", {"x1": 400_000 * "1"}), 20))
    finally:
        models.close()
    assert [each["trial"] for each in told] == ["loud-0003", "loud-0002", "loud-0003"]


def test_a_question_that_takes_too_long_or_comes_behind_too_many_is_answered_so(site, monkeypatch):
    models = ModelProcess(site.campaign.settings.home)

    async def asked() -> None:
        await models.ask("rod", "rod-0006", {})

    async def crowd() -> list[BaseException | None]:
        return await asyncio.gather(*(asked() for _ in range(process.WAITING + 3)), return_exceptions=True)

    monkeypatch.setattr(process, "ANSWER_S", 0.0)
    try:
        with pytest.raises(Unavailable, match="did not answer within 0 s"):
            asyncio.run(asked())
        assert models._child is None, "it was ended"
        models._answer = lambda question: {}
        said = [each for each in asyncio.run(crowd()) if each is not None]
        assert len(said) == 3 and all(isinstance(each, Busy) for each in said)
    finally:
        models.close()
