"""Objective, constraints, violation and feasibility apart, in everything that a person sees of a campaign."""

import csv
from pathlib import Path

import pytest
from bench import OVEN_CAMPAIGN, Bench, bench

from fieldcraft.flows.charts.space import parallel
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.views.display import Display
from fieldcraft.storage.objective import Objective
from fieldcraft.storage.records import TrialState, digest_of


@pytest.fixture
def oven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three parts are ordered; the third never comes, because its design is infeasible."""
    made = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    made.order()
    third = made.ledger.trial("oven-0003")
    made.ledger.move(third.id, TrialState.FAILED, third.expect, "ana", "it melts", failure="infeasible")
    return made


def record(made: Bench, number: int, strength: float, porosity: float) -> None:
    values = ("--value", f"strength={strength}", "--value", f"porosity={porosity}")
    assert made.run("record", f"oven-{number:04d}", *values)[0] == 0


def test_a_violation_is_the_sum_of_the_positive_parts_and_zero_where_all_are_met():
    objective = Objective("f", maximize=True, constraints=("g", "h"))
    assert objective.excess({"f": 1.0, "g": 2.0, "h": -3.0}) == {"g": 2.0, "h": 0.0}
    assert objective.violation({"f": 1.0, "g": 2.0, "h": 0.5}) == 2.5
    assert objective.violation({"f": 1.0, "g": 0.0, "h": -0.0}) == 0.0 and objective.feasible({"g": 0.0, "h": -1.0})
    assert not objective.feasible({"g": 1e-300, "h": -1.0})


def test_while_no_reading_is_feasible_the_one_that_violates_least_is_shown(oven):
    record(oven, 1, 60.0, 0.5)
    record(oven, 2, 40.0, 0.25)
    (data,) = oven.json("status", "oven")
    found = data["feasibility"]
    assert data["best"] is None and data["best_design"] is None
    assert (found["feasible"], found["infeasible"], found["failed_infeasible"]) == (0, 2, 1)
    closest = found["least_violation"]
    assert (closest["trial"], closest["violation"], closest["each"]) == ("oven-0002", 0.25, {"porosity": 0.25})
    text = oven.run("status", "oven")[1]
    assert "  feasible 0 of 2 results; 1 more design failed as infeasible\n" in text
    assert "  closest  violation 0.25 (porosity 0.25 %) in oven-0002; no result is feasible yet\n" in text


def test_the_best_is_the_best_that_is_feasible_and_then_nothing_is_closest(oven):
    record(oven, 1, 60.0, 0.5)
    record(oven, 2, 40.0, 0.0)
    (data,) = oven.json("status", "oven")
    assert data["best"]["trial"] == data["best_design"] == "oven-0002"
    assert (data["feasibility"]["feasible"], data["feasibility"]["least_violation"]) == (1, None)
    assert "closest" not in oven.run("status", "oven")[1]


def test_a_trial_shows_objective_constraint_and_feasibility_on_lines_of_their_own(oven):
    record(oven, 1, 60.0, 0.5)
    record(oven, 2, 40.0, -0.5)
    shown = oven.run("show", "oven-0001")[1]
    assert (
        "  outputs  strength 60 MPa\n  g <= 0   porosity 0.5 %\n  feasible no, violation 0.5 (porosity 0.5 %)" in shown
    )
    assert "  g <= 0   porosity -0.5 %\n  feasible yes\n" in oven.run("show", "oven-0002")[1]
    assert "  feasible no, the design itself is infeasible\n" in oven.run("show", "oven-0003")[1]
    told = [oven.json("show", f"oven-000{number}")["feasibility"] for number in (1, 2, 3)]
    assert [each["feasible"] for each in told] == [False, True, False]
    assert told[0]["constraints"] == {"porosity": {"value": 0.5, "violation": 0.5}}
    assert [each["violation"] for each in told] == [0.5, 0.0, None]
    assert oven.json("trace", "oven-0001")["feasibility"] == told[0]


def test_the_table_has_feasibility_and_violation_of_every_trial(oven, tmp_path):
    record(oven, 1, 60.0, 0.5)
    assert oven.run("export", "oven", "--csv", tmp_path / "oven.csv")[0] == 0
    with (tmp_path / "oven.csv").open(newline="") as stream:
        rows = [(row["state"], row["feasible"], row["violation"]) for row in csv.DictReader(stream)]
    assert rows == [("COMPLETED", "no", "0.5"), ("RUNNING", "", ""), ("FAILED", "no", "")]


def test_the_page_has_a_part_for_the_constraints(oven, tmp_path):
    record(oven, 1, 60.0, 0.5)
    record(oven, 2, 40.0, 0.25)
    assert oven.run("report", "oven", "--html", tmp_path / "oven.html")[0] == 0
    page = (tmp_path / "oven.html").read_text()
    assert "<h2>Feasibility</h2>" in page and '"title":"Violation by trial"' in page
    assert "0 of 2 results meet every constraint. 1 design gave no result" in page
    assert "<strong>Least violation: </strong>oven-0002 with 0.25 (porosity 0.25 %)" in page
    assert "<dt>feasible</dt><dd>0 of 2<span>1 failed as infeasible; least violation 0.25</span>" in page
    row = page[page.index("<td>porosity (%)</td>") :]
    assert row.startswith('<td>porosity (%)</td><td>0 of 2</td><td class="n">0.25</td><td class="n">0.375</td>')


def test_designs_that_break_a_constraint_lie_under_the_best_and_are_dotted(oven):
    record(oven, 1, 60.0, 0.5)
    record(oven, 2, 40.0, -0.5)
    lines = parallel(oven.ledger.campaign("oven"), oven.ledger.trials("oven")).data
    assert [line["y"][-2] for line in lines] == [1.0, 0.0], "the feasible one is drawn last"
    assert [line["line"]["dash"] for line in lines] == ["dot", "solid"]


def test_two_campaigns_are_compared_by_what_is_feasible(oven):
    record(oven, 1, 60.0, 0.5)
    record(oven, 2, 40.0, -0.5)
    spec = {**oven.ledger.campaign("oven").spec, "name": "other"}
    oven.ledger.create_campaign("other", spec, digest_of(spec), oven.ledger.campaign("oven").environment, "test")
    sides = oven.json("compare-runs", "oven", "other")["campaigns"]
    assert [(side["best"], side["feasibility"]["feasible"]) for side in sides] == [(40.0, 1), (None, 0)]
    assert "1 of 2 results; 1 more design failed as infeasible" in oven.run("compare-runs", "oven", "other")[1]


def test_progress_says_of_a_reading_that_it_is_not_feasible(oven, capsys):
    record(oven, 1, 60.0, 0.5)
    Display(lambda: oven.ledger, as_json=False)("completed", {"trial": oven.ledger.trial("oven-0001"), "seconds": 1.0})
    assert "in 1.0 s; feasible: no, violation 0.5 (porosity 0.5 %); best -" in capsys.readouterr().out


def test_a_campaign_without_constraints_has_nothing_of_all_this(finished):
    made = Bench(settings_from(home=finished / "home"), finished / "small.yaml")
    (data,) = made.json("status", "small")
    assert data["feasibility"] is None and "feasible" not in made.run("status", "small")[1]
    assert made.json("show", "small-0001")["feasibility"] is None
    assert "feasible" not in made.run("show", "small-0001")[1]
