"""Campaigns with outputs that are plain, computed, or sought near a value: measured, recorded, corrected, learnt."""

import re
from pathlib import Path

import numpy as np
import pytest
from bench import Bench, bench

from fieldcraft.flows.analysis.noise import noisy_constraints
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.notebook.opening import campaign
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps import acquire, decide, train
from fieldcraft.flows.studies.plan.spec import StudyProblem
from fieldcraft.flows.studies.scoring.results import sense_of
from fieldcraft.flows.views.regret import optimum_of
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.flows.wiring.fit.derived import told
from fieldcraft.flows.wiring.observations import observations
from fieldcraft.flows.wiring.physics import stated_noise

RATIO = [
    {"name": "purity", "formula": "yield / impurity + 0 * x"},
    {"name": "smoke"},
    {"name": "yield", "unit": "g", "plain": True},
    {"name": "impurity", "unit": "g", "plain": True},
    {"name": "colour", "plain": True},
]
TARGET = [{"name": "hardness", "unit": "HRC", "target": 40}]
SOFT = {"name": "soft", "formula": "38 - hardness"}
KNOWN = {
    "start": {"n": 3},
    "surrogate": {"kind": "exact_gp", "noise": "known"},
    "acquisition": {"kind": "log_ei"},
    "maximizer": {"kind": "multistart"},
}
CAMPAIGN = """\
name: oven
seed: 3
sense: maximize
problem:
  kind: declared
  variables: [{name: x, low: 0, high: 1}]
  results:
    - {name: purity, formula: yield / impurity + 0 * x}
    - {name: smoke}
    - {name: yield, unit: g, plain: true}
    - {name: impurity, unit: g, plain: true}
    - {name: colour, plain: true}
algorithm:
  start: {n: 3}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart, n_samples: 64, n_starts: 2}
approval: human
dispatcher: {kind: lab}
budget: {trials: 8}
"""
RESULTS = {1: (4.0, 2.0), 2: (3.0, 0.5), 3: (5.0, 4.0)}


def wired(folder: Path, results: object, **keys: object):
    data = {
        "name": "c",
        "seed": 1,
        "problem": {"kind": "declared", "variables": [{"name": "x", "low": 0, "high": 1}], "results": results},
        "algorithm": {"kind": "gp_ei"},
        "dispatcher": {"kind": "lab"},
        "budget": {"trials": 12},
        **keys,
    }
    return wire(parse(data, "c"), settings_from(home=folder))


def measured(folder: Path, patch: pytest.MonkeyPatch) -> Bench:
    made = bench(folder, CAMPAIGN, patch)
    made.order()
    for number, (good, bad) in RESULTS.items():
        words = (f"--value=yield={good}", f"--value=impurity={bad}", "--value=smoke=-1", "--value=colour=7")
        assert made.run("record", f"oven-{number:04d}", *words)[0] == 0
    return made


def test_people_are_asked_for_what_is_measured_and_the_rest_is_computed(tmp_path, monkeypatch):
    made = bench(tmp_path, CAMPAIGN, monkeypatch)
    made.order()
    head = (made.orders / "batch-0000.csv").read_text().splitlines()[0]
    assert "smoke,yield [g],impurity [g],colour," in head and "purity," not in head.replace("impurity,", "")
    status, out, _ = made.run("record", "oven-0001", "--value", "yield=4", "--value", "impurity=2")
    assert (status, "still missing: smoke, colour" in out) == (0, True)
    status, out, _ = made.run("record", "oven-0001", "--value", "smoke=-1", "--value", "colour=7")
    assert (status, "recorded, purity 2, smoke -1, yield 4 g, impurity 2 g, colour 7" in out) == (0, True), out
    status, _, error = made.run("record", "oven-0002", "--value", "purity=2")
    assert status == 2
    assert "purity is computed (yield / impurity + 0 * x): give yield, impurity, x, and leave it out" in error
    words = ("--value=yield=1", "--value=impurity=0", "--value=smoke=-1", "--value=colour=7")
    status, _, error = made.run("record", "oven-0002", *words)
    assert (status, "purity = yield / impurity + 0 * x is inf for yield 1.0, impurity 0.0" in error) == (2, True)
    assert not made.ledger.results("oven-0002")


def test_a_correction_of_a_part_changes_the_computed_value_and_what_is_best(tmp_path, monkeypatch):
    made = measured(tmp_path, monkeypatch)
    assert "purity 6, smoke -1, yield 3 g, impurity 0.5 g, colour 7 in oven-0002" in made.run("status", "oven")[1]
    assert made.run("correct", "oven-0003", "--value", "impurity=0.25", "--reason", "misread")[0] == 0
    assert made.ledger.trial("oven-0003").outputs["purity"] == 20.0
    assert "purity 20, smoke -1, yield 5 g, impurity 0.25 g" in made.run("status", "oven")[1]
    page = tmp_path / "report.html"
    assert made.run("report", "oven", "--html", page)[0] == 0
    assert "Maximise purity = yield / impurity + 0 * x of problem declared" in page.read_text()


def test_a_model_learns_the_parts_and_a_resumed_one_chooses_the_same(tmp_path, monkeypatch):
    chosen = []
    for folder in ("one", "other"):
        made = measured(tmp_path / folder, monkeypatch)
        site = site_of(str(made.settings.home), "oven", None)
        assert decide.decide(site).iteration == 1
        train.train(site, 1)
        site = site_of(str(made.settings.home), "oven", None)  # another process goes on
        chosen.append([trial.design for trial in acquire.acquire(site, 1, 1)])
    assert chosen[0] == chosen[1]
    data = observations(site.campaign, made.ledger.trials("oven")[:3], None)
    np.testing.assert_array_equal(data.composite.values, list(RESULTS.values()))
    np.testing.assert_array_equal(data.y, [2.0, 6.0, 1.25])
    np.testing.assert_array_equal(data.constraints, [[-1.0]] * 3)
    status, out, _ = made.run("predict", "oven-0002")
    assert status == 0 and all(f"{name} " in out for name in ("purity", "smoke", "yield", "impurity"))


def test_a_table_of_earlier_results_is_completed_too(tmp_path, monkeypatch):
    made = bench(tmp_path, CAMPAIGN, monkeypatch)
    table = tmp_path / "earlier.csv"
    table.write_text("x,yield [g],impurity [g],smoke,colour\n0.5,3,2,-1,0\n")
    assert made.run("import", made.file, table)[0] == 0
    assert made.ledger.trial("oven-0001").outputs["purity"] == 1.5
    assert made.run("export", "oven", "--csv", tmp_path / "exported.csv")[0] == 0
    fresh = tmp_path / "fresh.yaml"
    fresh.write_text(CAMPAIGN.replace("name: oven", "name: fresh"))
    assert made.run("import", fresh, tmp_path / "exported.csv")[0] == 0
    assert made.ledger.trial("fresh-0001").outputs == made.ledger.trial("oven-0001").outputs
    table.write_text("x,yield [g],impurity [g],smoke,colour\n0.25,3,0,-1,0\n")
    status, _, error = made.run("import", made.file, table)
    assert (status, "line 2: purity = yield / impurity + 0 * x is inf" in error) == (2, True), error
    table.write_text("x,yield [g],impurity [g],smoke,colour,purity\n0.25,3,2,-1,0,99\n")
    status, _, error = made.run("import", made.file, table)
    assert status == 2 and "column 'purity': purity is computed (yield / impurity + 0 * x): give yield" in error
    assert len(made.ledger.trials("oven")) == 1
    table.write_text("trial,yield [g],purity sd\noven-0001,3,1\n")
    status, _, error = made.run("record", "--csv", table)
    assert status == 2 and "column 'purity sd': purity is computed" in error


@pytest.mark.parametrize(
    ("results", "keys", "said"),
    [
        (RATIO, {"sense": "maximize"}, r"purity is computed \(yield .*learnt through yield, impurity"),
        (TARGET, {}, r"computed \(distance of hardness from 40\); learnt through hardness"),
        (RATIO, {"sense": "maximize", "algorithm": {"kind": "gp_ts"}}, "learnt through yield"),
        (TARGET, {"algorithm": {"kind": "gp_ucb"}}, "its number is learnt: the acquisition ucb scores one number"),
        (TARGET, {"algorithm": {"kind": "optuna_tpe"}}, "its number is learnt: the rival optuna_tpe takes one number"),
        (TARGET, {"algorithm": KNOWN}, "learnt through hardness"),
        ([*TARGET, SOFT], {}, r"computed \(soft\) are learnt by their numbers"),
    ],
)
def test_check_says_how_an_objective_is_learnt(results, keys, said, tmp_path):
    campaign = wired(tmp_path, results, **keys)
    assert re.search(said, told(campaign))


def test_check_says_which_stated_deviations_nothing_learns_from(tmp_path):
    results = [RATIO[0], RATIO[1], RATIO[2] | {"sd": 0.1}, RATIO[3], RATIO[4] | {"sd": 0.2}]
    parts, number = (
        stated_noise.told(wired(tmp_path, results, sense="maximize", algorithm={"kind": kind}))
        for kind in ("gp_ei", "gp_ucb")
    )
    assert "the problem states the standard deviation of yield, and the surrogate weighs each result by it" in parts
    assert "The standard deviation of colour is not used" in parts
    assert number == "The standard deviation of yield, colour is not used: no surrogate learns that result."


@pytest.mark.parametrize(
    ("results", "keys", "message"),
    [
        (TARGET, {"sense": "maximize"}, "sense: 'maximize' is given, and 'hardness_distance' is a distance"),
        (RATIO, {}, r"sense: missing\. Give it"),
        (RATIO, {"sense": "maximize", "noise": {"sd": 0.1}}, "noise: it would be added to 'purity', which is computed"),
        ([{"name": "a", "formula": "b +"}], {"sense": "minimize"}, r"The formula 'b \+' lacks a number, a name"),
        ([{"name": "a", "bnad": [1, 2]}], {"sense": "minimize"}, "bnad"),
        ([{"name": "a", "band": [2, 1]}], {}, r"a has the band \[2.0, 1.0\]: swap its ends"),
        ([{"name": "a", "target": float("nan")}], {}, "target"),
        (
            [*TARGET, SOFT],
            {"algorithm": KNOWN},
            r"surrogate\.noise is known, and soft is computed and learnt by its num",
        ),
    ],
)
def test_what_does_not_fit_is_refused(results, keys, message, tmp_path):
    with pytest.raises(InputError, match=message):
        wired(tmp_path, results, **keys)


def test_a_problem_without_such_outputs_has_the_data_that_it_had(tmp_path):
    campaign = wired(tmp_path, [{"name": "a", "unit": "g"}], sense="minimize")
    assert campaign.data["problem"]["results"] == [{"name": "a", "unit": "g", "objective": None, "reference": None}]


PROBLEM = """\
from dataclasses import dataclass

from fieldcraft.physics.outputs.formula import Formula
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Kiln(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("T", 0.0, 1.0),))

    @property
    def outputs(self):
        rate = Output("rate", formula=Formula("made / sqrt(time)"))
        return (rate, Output("made", plain=True), Output("time", plain=True))

    def function(self, design):
        return {"made": 1 + design["T"], "time": 0.5 - design["T"]}
"""


def test_a_program_gives_the_parts_and_a_value_that_is_not_finite_fails_its_trial(tmp_path, monkeypatch):
    problems = tmp_path / "plugins" / "problems"
    problems.mkdir(parents=True)
    (problems / "kiln.py").write_text(PROBLEM)
    text = CAMPAIGN.partition("problem:")[0] + (
        "problem: {kind: kiln}\nsimulator: {kind: function}\ndispatcher: {kind: inline}\n"
        "algorithm: {start: {n: 4}}\nbudget: {trials: 4}\nbatch: 4\n"
    )
    made = bench(tmp_path, text, monkeypatch)
    for _ in range(3):
        made.make_pass()
    for trial in made.ledger.trials("oven"):
        T = trial.design["T"]
        if T < 0.5:
            assert trial.outputs["rate"] == pytest.approx((1 + T) / (0.5 - T) ** 0.5)
        else:
            assert (trial.state, trial.failure) == ("FAILED", "unknown")
            assert "evaluate: output 'rate' is nan" in made.run("show", trial.id)[1]


def test_a_misspelt_name_in_a_python_problem_is_told_by_check(tmp_path, monkeypatch):
    problems = tmp_path / "plugins" / "problems"
    problems.mkdir(parents=True)
    (problems / "kiln.py").write_text(PROBLEM.replace("made / sqrt(time)", "made / sqrt(tme)"))
    text = CAMPAIGN.partition("problem:")[0] + "problem: {kind: kiln}\nsimulator: {kind: function}\n"
    made = bench(tmp_path, text + "algorithm: {start: {n: 4}}\nbudget: {trials: 4}\n", monkeypatch)
    status, _, error = made.run("check", made.file)
    assert (status, "problem: The formula of 'rate' reads 'tme'" in error) == (2, True), error


SIMULATOR = """\
from dataclasses import dataclass
from typing import ClassVar

import xarray as xr

from fieldcraft.physics.problem import Simulator


@dataclass(frozen=True)
class Kiln(Simulator):
    idempotent: ClassVar[bool] = True
    cells: int = 8

    def run(self, problem, design, rng):
        made, time = 1 + design["T"] * (1 - 1 / self.cells), 2 - design["T"]
        return xr.Dataset({"made": ((), made, {"units": ""}), "time": ((), time, {"units": ""})})
"""


def test_coarser_levels_teach_a_computed_objective(tmp_path, monkeypatch):
    for folder, text in (("problems", PROBLEM), ("simulators", SIMULATOR)):
        (tmp_path / "plugins" / folder).mkdir(parents=True)
        (tmp_path / "plugins" / folder / "kiln.py").write_text(text)
    text = CAMPAIGN.partition("problem:")[0] + (
        "problem: {kind: kiln}\nsimulator: {kind: kiln}\nlevels: [{cells: 4, cost: 0.1}]\n"
        "dispatcher: {kind: inline, parallel: 7}\nalgorithm: {kind: auto, start: {n: 5}}\nbatch: 7\n"
        "budget: {trials: 3, cost: 8}\n"
    )
    made = bench(tmp_path, text, monkeypatch)
    said = "".join(made.run("check", made.file)[1:])
    assert "its number is learnt: coarser levels of the simulator teach one number" in said
    for _ in range(2):
        made.make_pass()
    trials = [trial for trial in made.ledger.trials("oven") if trial.state == "COMPLETED"]
    assert {trial.level for trial in trials} == {0, None} and all("rate" in trial.outputs for trial in trials)
    data = observations(made.site.campaign, trials, None)
    assert data.composite is None
    rates = [trial.outputs["rate"] for trial in trials if trial.level == 0]
    np.testing.assert_array_equal(data.lower[0].Y[:, 0], rates)


def test_a_constraint_that_is_computed_from_a_noisy_result_is_noisy():
    limit, part = {"name": "g", "formula": "raw - 5"}, {"name": "raw", "plain": True}
    for sd, noisy in (({}, False), ({"sd": 0.1}, True)):
        assert noisy_constraints({}, [{"name": "y"}, limit, part | sd], people=False) is noisy
    assert not noisy_constraints({}, [{"name": "y"}, {"name": "g"}, part | {"sd": 0.1}], people=False)


def test_a_target_from_a_notebook_needs_no_sense(tmp_path):
    problem = {"kind": "declared", "variables": [{"name": "x", "low": 0, "high": 1}], "results": TARGET}
    opened = campaign("steel", problem=problem, budget=8, home=tmp_path, approval="auto")
    (trial,) = opened.ask().index
    assert "hardness_distance 5 HRC, hardness 35 HRC" in opened.tell(trial, 35)
    opened.tell(trial, {"hardness": 41})
    assert opened.trials.loc[trial, "hardness_distance"] == 1.0
    with pytest.raises(
        InputError, match=r"hardness_distance is computed \(distance of hardness from 40\): give hardness"
    ):
        opened.tell(trial, {"hardness_distance": 1})


def test_a_distance_is_minimised_in_a_study_and_has_its_known_optimum(tmp_path, monkeypatch):
    problem = StudyProblem(problem={"kind": "kiln"}, start={"n": 1}, budget={"trials": 2})
    assert [sense_of(problem, {"maximize": each}) for each in (False, True)] == ["minimize", None]
    (tmp_path / "plugins" / "problems").mkdir(parents=True)
    text = PROBLEM.replace('Formula("made / sqrt(time)")', 'Distance("made", 1.5, 1.5)')
    text = text.replace("import Output,", "import Optimum, Output,").replace(
        "formula import Formula", "distance import Distance"
    )
    text += (
        "\n    def optimum(self, sense):\n        return Optimum({'T': 0.5}, 0.0) if sense == 'minimize' else None\n"
    )
    (tmp_path / "plugins" / "problems" / "kiln.py").write_text(text)
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(tmp_path / "plugins"))
    made = wired(tmp_path, [], problem={"kind": "kiln"}, simulator={"kind": "function"}, dispatcher={"kind": "inline"})
    assert optimum_of(made).value == 0.0
