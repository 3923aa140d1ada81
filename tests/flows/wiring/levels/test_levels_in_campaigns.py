"""Campaigns whose simulator has levels: what runs, what counts, what is shown, and what an approval binds."""

import asyncio
import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from desk_site import TOKENS, Browser, desk, people
from mesh import LEVELS, SIMULATOR, WORDS, mesh, of_level
from small import alter

from fieldcraft.flows.analysis.best import best_of
from fieldcraft.flows.analysis.levels import level_said
from fieldcraft.flows.desk.board import Standing
from fieldcraft.flows.desk.pages.overview import glance
from fieldcraft.flows.dispatchers._known_results import table_records
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notebook.tables import trials_table
from fieldcraft.flows.results.import_table import import_table
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.train import lesson_of
from fieldcraft.flows.views.data import show_data, status_data, trace_data
from fieldcraft.flows.views.export import export_csv
from fieldcraft.flows.views.pending import queue_data, queue_text
from fieldcraft.flows.views.text import show_text, status_text
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.levels.tried import remarks_of
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledgers.sqlite import close_idle
from fieldcraft.storage.records import TrialState, trial_digest


@pytest.fixture(autouse=True)
def _environment(tmp_path_factory, monkeypatch, request):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")


FRESH = (
    "{name: fresh, seed: 1, sense: minimize, problem: {kind: branin}, simulator: {kind: exact}, ",
    "algorithm: {kind: sobol}, dispatcher: {kind: inline}, budget: {trials: 2}}",
)


def of_model(trials):
    return [trial for trial in trials if trial.origin.kind == "model"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDCRAFT_PLUGINS", str(folder / "plugins"))
        patch.setenv("MESH_LOG", str(folder / "cells"))
        made = mesh(folder)
        made.finish()
        yield made


def test_the_start_is_nested_and_every_trial_runs_its_own_level(ended):
    trials = ended.ledger.trials("b")
    cells = [int(line) for line in (ended.folder / "cells").read_text().split()]
    assert cells == [{None: 96, 0: 12, 1: 24}[trial.level] for trial in trials]
    start = [trial for trial in trials if trial.iteration == 0]
    designs = {level: [trial.design for trial in of_level(start, level)] for level in (0, 1, None)}
    assert [trial.level for trial in start] == sorted((t.level for t in start), key=lambda at: (at is None, at or 0))
    assert designs[None] == designs[0][:2] == designs[1][:2]
    assert {trial.outputs["value"] for trial in start if trial.design == designs[None][0]}.__len__() == 3


def test_costs_are_shares_and_only_the_target_takes_from_the_trials(ended):
    trials, spending = ended.ledger.trials("b"), ended.ledger.spending("b")
    assert {trial.level: trial.cost for trial in trials} == {None: 1.0, 0: 0.05, 1: 0.2}
    assert spending.trials == len(of_level(trials, None)) <= 3
    assert spending.spent == pytest.approx(sum(trial.cost for trial in trials)) and spending.spent <= 3.6
    assert ended.ledger.campaign("b").finished == "budget: 3 of 3 trials"
    assert trials[-1].level is None and any(trial.level == 0 for trial in of_model(trials))
    assert all("level 12 cells" in trial.origin.remarks["levels"] for trial in of_model(trials))


def test_only_results_of_the_target_count(ended):
    record, summaries = ended.ledger.campaign("b"), ended.ledger.summaries("b")
    own = [trial.outputs["value"] for trial in summaries if trial.level is None]
    assert best_of(ended.ledger, record, summaries).measured.outputs["value"] == min(own)
    lower = [trial for trial in summaries if trial.level is not None]
    assert min(trial.outputs["value"] for trial in lower) < min(own), "else this shows nothing"
    assert ended.campaign.objective.best(lower) is None
    status = status_data(ended.ledger, record)
    assert (status["states"], status["trials"]) == ({"COMPLETED": len(own)}, len(own))
    assert glance(Standing(record, 1, 0.0, status, summaries))["settled"] == len(own)
    assert sum(sum(each["states"].values()) for each in status["levels"]) == len(lower)


def test_the_model_learns_from_each_level(ended):
    site = Site(ended.campaign, ended.ledger, fields_at(ended.settings.fields))
    lesson = lesson_of(site, 99)
    trials = ended.ledger.trials("b")
    assert [(each.level, each.cost) for each in lesson.data.lower] == [(0, 0.05), (1, 0.2)]
    for each in (*lesson.data.lower, None):
        those = of_level(trials, each and each.level)
        X, y = (lesson.data.X, lesson.data.y) if each is None else (each.X, each.Y[:, 0])
        np.testing.assert_array_equal(X, ended.campaign.space.encode([trial.actual for trial in those]))
        np.testing.assert_array_equal(y, [trial.outputs["value"] for trial in those])
    assert len(lesson.seen.digest) == 64 and len(lesson.trials) == len(trials)


def test_levels_are_shown_in_words_wherever_a_trial_is(ended, tmp_path):
    record = ended.ledger.campaign("b")
    assert [level_said(record, number) for number in (0, 1)] == [
        "level 12 cells (0.05 of a run)",
        "level 24 cells (0.2 of a run)",
    ]
    trial = of_level(ended.ledger.trials("b"), 0)[0]
    assert "level 12 cells (0.05 of a run): " in status_text(ended.ledger, record)
    assert "12 cells (0.05 of a run), a coarser run that is no result" in show_text(ended.ledger, trial)
    assert show_data(ended.ledger, trial)["level"] == "level 12 cells (0.05 of a run)"
    assert trace_data(ended.ledger, trial, None, None)["trial"]["level"] == "level 12 cells (0.05 of a run)"
    export_csv(ended.ledger, "b", tmp_path / "b.csv")
    with (tmp_path / "b.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["level"] for row in rows} == {"", "12 cells", "24 cells"}
    records = table_records(replace(ended.settings, records=tmp_path), "b.csv")
    assert [each.name for each in records] == [trial.id for trial in of_level(ended.ledger.trials("b"), None)]
    renamed = {"design.x1": "x1", "design.x2": "x2", "output.value": "value"}
    (tmp_path / "fresh.yaml").write_text("".join(FRESH))
    with pytest.raises(InputError, match=r"line 2: level is '12 cells': a coarser run, which is no result\. Remove"):
        import_table(ended.settings, tmp_path / "fresh.yaml", tmp_path / "b.csv", renamed, "ana")
    done = import_table(ended.settings, tmp_path / "fresh.yaml", tmp_path / "b.csv", {}, "ana")
    assert len(done.trials) == len(records) and set(done.left) == {row["trial"] for row in rows if row["level"]}
    assert done.left[trial.id] == "a coarser run (12 cells)"
    table = trials_table(record, ended.ledger.summaries("b"), [])
    assert table["level"].tolist() == [row["level"] for row in rows]


def test_remarks_of_every_output_name_levels_by_their_options(ended):
    remarks = {"constraint1.levels": "level 0 and", "out.multilevel_gp": "of level 1", "maximizer": "level 0"}
    said = remarks_of(ended.campaign, SimpleNamespace(remarks=remarks))
    assert list(said.values()) == ["level 12 cells and", "of level 24 cells", "level 0"]


def test_a_resumed_campaign_is_the_uninterrupted_one(ended, tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("MESH_LOG", str(tmp_path / "cells"))
    made = mesh(tmp_path)
    points = (
        "ledger.propose.after#1",
        "ledger.move.STAGED.after#1",
        "ledger.move.RUNNING.after#1",
        "ledger.record.before#1",
    )
    for point in points:
        assert made.step_in_child(FIELDCRAFT_DIE_AT=point) == -9, point
    made.finish()
    told = [[(t.design, t.level, t.outputs, t.cost) for t in each.ledger.trials("b")] for each in (ended, made)]
    assert told[0] == told[1]
    assert len((tmp_path / "cells").read_text().split()) <= len(told[0]) + len(points)


def test_a_campaign_of_which_every_coarse_run_fails_goes_on_with_the_target(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    broken = SIMULATOR.replace("seen = height", "assert self.cells == 96\n        seen = height")
    made = mesh(tmp_path, broken)
    made.finish()
    trials = made.ledger.trials("b")
    assert {trial.level: trial.counts for trial in trials} == {None: True, 0: False, 1: False}
    assert made.ledger.campaign("b").finished == "budget: 3 of 3 trials"
    assert [trial.origin.remarks["levels"] for trial in of_model(trials)] == ["none has a result: the target alone"]


def test_a_start_without_a_result_of_the_target_goes_on_with_the_sequence(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    refusal = 'if self.cells == 96 and not 3 < design["x1"] < 6:\n            raise Infeasible("too wet")'
    code = SIMULATOR.replace("import Simulator", "import Infeasible, Simulator").replace(
        "seen = height", f"{refusal}\n        seen = height"
    )
    algorithm = {"start": {"n": 4}, **WORDS}
    made = mesh(tmp_path, code, budget={"trials": 4, "cost": 5}, algorithm=algorithm)
    made.finish()
    own = of_level(made.ledger.trials("b"), None)
    assert [trial.counts for trial in own[:3]] == [False, False, True]
    assert [trial.origin.kind for trial in own] == ["initial", "initial", "initial", "model"]
    first = [trial.design for trial in of_level(made.ledger.trials("b"), 0)[:3]]
    assert [trial.design for trial in own[:3]] == first


def test_an_approval_binds_the_level_and_a_change_outside_the_ledger_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv("MESH_LOG", str(tmp_path / "cells"))
    made = mesh(tmp_path, approval="human")
    made.step()
    record, (first, *_) = made.ledger.campaign("b"), made.ledger.trials("b")
    assert first.digest == trial_digest(first.design, record.digest, 0) != trial_digest(first.design, record.digest)
    entry = queue_data(made.ledger, record)["waiting"][0]
    assert entry["level"] == "level 12 cells (0.05 of a run)" in queue_text(queue_data(made.ledger, record), 0.0)
    monkeypatch.setenv("FIELDCRAFT_PEOPLE", str(people(tmp_path / "people.yaml")))
    with asyncio.Runner() as Browser.runner:
        browser = Browser(desk(settings_from(home=made.settings.home))).sign_in(TOKENS["carla"])
        for page in ("/queue/b", "/campaign/b", "/campaign/b/trial/b-0001"):
            assert "level 12 cells (0.05 of a run)" in browser.get(page).said, page
    monkeypatch.delenv("FIELDCRAFT_PEOPLE")
    made.ledger.approve(first.id, first.expect, first.digest, "ana", "", "manual", 1, code=made.code)
    alter(made.settings.home, f"UPDATE trials SET origin = json_set(origin, '$.level', 1) WHERE id = '{first.id}'")
    close_idle()
    made.step()
    assert made.trial().state is not TrialState.COMPLETED and not (tmp_path / "cells").exists()
    assert any("digest" in fault for fault in made.ledger.check())


def test_a_design_that_a_person_edits_keeps_its_level_and_its_share_of_the_cost(tmp_path, monkeypatch):
    from fieldcraft.flows.identity import acting
    from fieldcraft.flows.people.decisions import edit
    from fieldcraft.flows.rules.trial_labels import Choice

    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    made = mesh(tmp_path, approval="human")
    made.step()
    person = acting(made.settings, "operate")
    _, after = edit(made.ledger, made.settings, person, Choice("b-0001"), {"x1": "1.0"}, "nearer")
    assert (after.level, after.cost) == (0, 0.05)
    assert made.ledger.check() == []


def test_levels_given_in_any_order_are_one_campaign(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    one = mesh(tmp_path)
    assert mesh(tmp_path, levels=list(LEVELS[::-1])).campaign.digest == one.campaign.digest
    assert one.campaign.data["levels"] == [{"cost": 0.05, "cells": 12}, {"cost": 0.2, "cells": 24}]
