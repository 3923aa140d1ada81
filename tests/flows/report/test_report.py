"""The page of a campaign: it stands alone, shows what users wrote and never obeys it, and tells what models believe."""

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import mlflow.tracking
import numpy as np
import pytest
from bench import OVEN_CAMPAIGN, bench
from plotly.graph_objects import Figure
from scipy.interpolate import RectBivariateSpline
from small import SMALL, finish

from fieldcraft.flows.analysis.best import best_trial
from fieldcraft.flows.charts.space import parallel, where
from fieldcraft.flows.cli import main
from fieldcraft.flows.identity import ACTOR
from fieldcraft.flows.report.answers import decisions_of
from fieldcraft.flows.report.belief import believed
from fieldcraft.flows.report.markup import element, page, table
from fieldcraft.flows.report.sections import foreseen_cell
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import read_campaign
from fieldcraft.flows.steps.collocate import collocate
from fieldcraft.flows.steps.train import train
from fieldcraft.flows.views.charts import new_figure, places, progress
from fieldcraft.flows.views.data import setting
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.records import Origin, Proposal, TrialState
from fieldcraft.storage.text import printable

HOSTILE = "</td><script>alert(1)</script><img src='http://example.org/x.png' onerror=\"steal()\"> $\\frac{ & é \u202e"
SHOWN = printable(HOSTILE)
SECTIONS = (
    "Best so far",
    "Where the trials lie",
    "Surrogate beside simulator",
    "Queue and decisions",
    "Time and cost",
    "Trials",
    "Provenance",
)


class Read(HTMLParser):
    """A page as a browser takes it: its elements, their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def written(home: Path, name: str = "small") -> str:
    """The page of a campaign."""
    file = home.parent / f"{name}.html"
    assert main(["report", name, "--html", str(file), "--home", str(home)]) == 0
    return file.read_text(encoding="utf-8")


def charts(text: str) -> dict[str, dict]:
    """Charts of a page by their titles."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', text)
    return {chart["title"]: chart for chart in map(json.loads, found)}


def ledger_of(home: Path) -> Ledger:
    return open_ledger(home / "ledger.sqlite")


def site_of(home: Path, name: str, plugins: tuple[Path, ...] = ()) -> Site:
    """A campaign's site, to be read."""
    settings = settings_from({"FIELDCRAFT_PLUGINS": ":".join(map(str, plugins))}, home=home)
    return Site(rewire(ledger_of(home).campaign(name).spec, settings), ledger_of(home), fields_at(settings.fields))


VESSEL = """
from dataclasses import dataclass
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Categorical, Continuous, Integer, SearchSpace


@dataclass(frozen=True)
class Vessel(Problem):
    @property
    def space(self):
        return SearchSpace(
            (Continuous("idle", 0.0, 1.0), Continuous("width", 1.0, 3.0, "m"), Integer("ribs", 0, 8),
             Categorical("paint", ("red", "blue")))
        )

    @property
    def outputs(self):
        return (Output("cost", "$"),)
"""
VESSEL_FILE = """
name: vessel
seed: 5
sense: minimize
problem: {kind: vessel}
simulator: {kind: function}
algorithm:
  start: {n: 24}
  surrogate: {kind: exact_gp}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
budget: {trials: 30}
"""
PLATE = """
name: plate
seed: 5
sense: maximize
problem: {kind: heat, boundary: 2}
simulator: {kind: heat, cells: 32}
noise: {sd: 0.1}
algorithm:
  start: {n: 12}
  surrogate: {kind: physics_informed, engine: basis, degree: 12}
  acquisition: {kind: log_ei}
  maximizer: {kind: multistart}
  collocation: {n: 16}
budget: {trials: 20}
"""


DOME = """
from dataclasses import dataclass
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.operators import poisson
from fieldcraft.physics.problem import Output, Problem
from fieldcraft.physics.space import Continuous, SearchSpace


@dataclass(frozen=True)
class Dome(Problem):
    @property
    def space(self):
        return SearchSpace((Continuous("x", 0.0, 4.0, "m"), Continuous("y", 0.0, 1.0, "m")))

    @property
    def domain(self):
        return Domain((Axis("x", 0.0, 4.0, "m"), Axis("y", 0.0, 1.0, "m")))

    @property
    def equation(self):
        return poisson(2, -4.0)

    @property
    def outputs(self):
        return (Output("height", "m"),)
"""
DOME_FILE = (
    PLATE.replace("name: plate", "name: dome")
    .replace("{kind: heat, boundary: 2}", "{kind: dome}")
    .replace("{kind: heat, cells: 32}", "{kind: function}")
    .replace("sd: 0.1", "sd: 0.001")
    .replace("degree: 12", "degree: 4")
)


def began(folder: Path, text: str, plugins: tuple[Path, ...] = ()) -> Site:
    """The site of a campaign that was just created."""
    file, name = folder / "own.yaml", re.search(r"name: (\w+)", text)[1]
    file.write_text(text)
    settings = settings_from({"FIELDCRAFT_PLUGINS": ":".join(map(str, plugins))}, home=folder / "home")
    assert created(open_ledger(settings.ledger, create=True), wire(read_campaign(file), settings), file) is None
    return site_of(settings.home, name, plugins)


def read(site: Site, n: int, formula: Callable[[dict], float]) -> None:
    """Complete n trials at designs of the space, and train on them."""
    space, output = site.campaign.space, site.campaign.objective.output
    designs = space.decode(space.sample(n, np.random.default_rng(1)))
    origins = [Origin(kind="initial", algorithm="sobol", iteration=0, slot=slot) for slot in range(n)]
    proposals = [Proposal(design=design, origin=origin) for design, origin in zip(designs, origins, strict=True)]
    for trial in site.ledger.propose(site.name, 0, proposals, "test"):
        sent = site.ledger.approve(trial.id, trial.expect, trial.digest, "test", "", "auto", 1)
        for state in (TrialState.STAGED, TrialState.RUNNING):
            sent = site.ledger.move(sent.id, state, sent.expect, "test", "by hand")
        site.ledger.record(sent.id, sent.expect, {output: formula(trial.design)}, None, "test", "person", {})
    collocate(site, 1)
    train(site, 1)


@pytest.fixture
def vessel(tmp_path: Path) -> Site:
    """Four variables of which one does nothing and one is categorical, and a unit that mathematics would take amiss."""
    (tmp_path / "mine" / "problems").mkdir(parents=True)
    (tmp_path / "mine" / "problems" / "vessel.py").write_text(VESSEL)
    site = began(tmp_path, VESSEL_FILE, (tmp_path / "mine",))
    read(site, 24, lambda d: (d["width"] - 1.7) ** 2 + 0.05 * d["ribs"] + 1.0 * (d["paint"] == "red"))
    return site


@pytest.fixture
def plate(tmp_path: Path) -> Site:
    """Exact temperatures, learnt by a prior over the equation's own solutions."""
    site = began(tmp_path, PLATE)
    read(site, 12, lambda d: float(site.campaign.problem.exact(np.array([[d["x"], d["y"]]]))[0]))
    return site


def test_a_page_stands_alone_and_has_every_section(finished):
    text = written(finished / "home")
    shown = Read(text)
    assert [tag for tag, _ in shown.elements if tag in ("link", "iframe", "object", "form", "a", "img")] == []
    assert not any({"src", "href", "srcset"} & attributes.keys() for _, attributes in shown.elements)
    assert "@import" not in text.partition("</style>")[0] and "url(" not in text.partition("</style>")[0]
    assert len(charts(text)) >= 4
    assert all(plot["aria-label"] for plot in shown.all("div") if plot.get("class") == "plot")
    (policy,) = [meta["content"] for meta in shown.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for title in SECTIONS:
        assert title in shown.texts


def test_a_page_tells_best_trial_regret_spending_and_provenance(finished):
    home = finished / "home"
    shown, ledger = Read(written(home)).text, ledger_of(home)
    campaign, trials = ledger.campaign("small"), ledger.trials("small")
    best = min(trials, key=lambda trial: trial.outputs["value"])
    assert f"in {best.id}" in shown
    assert f"{best.outputs['value']:.6g}" in shown
    assert "true optimum 0.397887" in shown
    assert "3 of 3 sent" in shown
    assert campaign.digest in shown
    assert campaign.environment["commit"] in shown
    models = [product for product in ledger.products("small") if product.step == "train"]
    assert len(models) == 2, "the last one is of all results"
    for digest in (d for model in models for d in (model.digest, model.payload["data_digest"], model.reference.digest)):
        assert digest[:12] in shown
    assert str(home) not in shown


def test_a_page_runs_its_own_scripts_and_no_other(finished):
    text = written(finished / "home")
    (policy,) = [meta["content"] for meta in Read(text).all("meta") if "http-equiv" in meta]
    allowed = set(re.findall(r"'(sha256-[^']+)'", policy))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert {f"sha256-{digest}" for digest in digests} == allowed
    assert len(allowed) == 3  # tables, plotly.js and charts
    assert "unsafe" not in policy.partition("style-src")[0]


def test_every_chart_of_a_page_fits_the_schema_of_plotly_and_has_its_data(finished):
    for chart in charts(written(finished / "home")).values():
        Figure(data=chart["data"], layout=chart["layout"])
        assert chart["rows"] and all(len(row) == len(chart["head"]) for row in chart["rows"])


def test_a_page_answers_first_what_was_found_how_sure_and_what_was_decided(finished):
    shown = Read(written(finished / "home"))
    at = [shown.texts.index(title) for title in ("What was found", "How sure", "What was decided", "Best so far")]
    assert at == sorted(at)
    assert "3 approvals by policy, without a person." in shown.texts
    (fold,) = [text for text in shown.texts if text.endswith("automatic approvals")]
    assert fold == "3 automatic approvals"
    assert "Approvals by people" not in shown.texts


def test_what_people_wrote_is_shown_and_never_obeyed(finished):
    home, ledger = finished / "home", ledger_of(finished / "home")
    origin = Origin(kind="initial", algorithm="sobol", iteration=9, slot=0)
    design = {"x1": 1.0, "x2": 2.0}
    proposals = [Proposal(design=design, origin=origin.model_copy(update={"slot": slot})) for slot in range(3)]
    approved, refused, waiting = ledger.propose("small", 9, proposals, "test")
    ledger.approve(approved.id, approved.expect, approved.digest, f"ada{HOSTILE}", HOSTILE, "manual", 1)
    ledger.move(refused.id, TrialState.REJECTED, refused.expect, "bob", HOSTILE)
    shown = Read(written(home))
    assert shown.texts.count(SHOWN) >= 3  # the decision and the approval, and the rejection
    assert f"ada{SHOWN}" in shown.texts
    assert [script.get("type") for script in shown.all("script")] == [
        *["application/json"] * len(charts(written(home))),
        *[None] * 3,
    ]
    assert not shown.all("form")
    assert not any("onerror" in attributes for _, attributes in shown.elements)
    assert not shown.all("img")
    assert "rejected" in shown.texts
    assert "approved for 1 attempt" in shown.texts
    queue = shown.texts[shown.texts.index("Waiting for a person") : shown.texts.index("Decisions")]
    assert waiting.id in queue
    assert not {approved.id, refused.id} & set(queue)


def test_an_approval_is_a_persons_by_its_policy_and_not_by_a_name(finished):
    home, ledger = finished / "home", ledger_of(finished / "home")
    origin = Origin(kind="initial", algorithm="sobol", iteration=9, slot=0)
    proposal = Proposal(design={"x1": 1.0, "x2": 2.0}, origin=origin)
    (trial,) = ledger.propose("small", 9, [proposal], "test")
    ledger.approve(trial.id, trial.expect, trial.digest, "fieldcraft", "", "manual", 1)
    shown = Read(written(home)).texts
    assert "approved for 1 attempt" in shown
    assert any(text.startswith("3 approvals were given automatically") for text in shown)


def test_control_characters_and_half_characters_do_not_reach_a_page():
    made = page("a\x00b", table(["<b>"], [["c\x1b[31md", 5], [element("p", "\ud800"), None]]))
    assert not {"\x00", "\x1b", "\ud800"} & set(made)
    assert [made.count(escaped) for escaped in (r"a\x00b", r"c\x1b[31md", r"\ud800")] == [1, 1, 1]
    assert "<b>" in Read(made).texts


def test_the_prediction_of_the_page_is_the_one_that_was_foreseen(tmp_path):
    home, exact = tmp_path / "home", SMALL.replace("noise: {sd: 0.5}\n", "dispatcher: {kind: inline}\n")
    (tmp_path / "small.yaml").write_text(exact)
    finish(tmp_path / "small.yaml", home)
    trial = ledger_of(home).trial("small-0003")
    belief = believed(site_of(home, "small"), trial)
    assert belief.trials == 2
    assert sorted(belief.plane.names) == ["x1", "x2"]
    place = [float(trial.design[name]) for name in belief.plane.names]
    mean, sd = (
        float(RectBivariateSpline(*belief.plane.axes, v)(*place)[0, 0]) for v in (belief.plane.mean, belief.plane.sd)
    )
    assert mean == pytest.approx(trial.origin.mean, rel=1e-3)
    assert sd == pytest.approx(trial.origin.sd, rel=1e-2)


def test_the_slice_is_over_the_variables_that_matter_with_the_others_at_the_best_design(vessel):
    best = best_trial(vessel.ledger.campaign("vessel"), vessel.ledger.trials("vessel"))
    plane = believed(vessel, best).plane
    assert set(plane.names) == {"width", "ribs"}
    assert plane.held == {"idle": best.design["idle"], "paint": best.design["paint"]}
    assert plane.shares["idle"] < 0.02
    assert sum(plane.shares.values()) == pytest.approx(1.0)
    width = plane.names.index("width")
    assert plane.axes[width][[0, -1]].tolist() == [1.0, 3.0]
    place = [float(best.design[name]) for name in plane.names]
    there = RectBivariateSpline(*plane.axes, plane.mean)(*place)[0, 0]
    assert there == pytest.approx(best.outputs["cost"], abs=0.2)
    lowest = np.unravel_index(np.argmin(plane.mean), plane.mean.shape)[width]
    assert plane.axes[width][lowest] == pytest.approx(1.7, abs=0.15)


def test_the_slice_is_at_what_was_really_run_as_far_as_the_space_goes(vessel):
    best = best_trial(vessel.ledger.campaign("vessel"), vessel.ledger.trials("vessel"))
    ran = {**best.design, "idle": 1.5, "width": 9.0, "paint": "red"}
    plane = believed(vessel, best.model_copy(update={"ran": ran})).plane
    assert plane.held == {"idle": 1.0, "paint": "red"}
    blue = believed(vessel, best.model_copy(update={"ran": {**ran, "paint": "blue"}})).plane
    assert plane.mean.mean() > blue.mean.mean() + 0.5, "red costs one more"


def test_charts_show_the_designs_that_were_really_run(finished):
    ledger = ledger_of(finished / "home")
    trials = [trial.model_copy(update={"ran": {"x1": 4.0, "x2": 5.0}}) for trial in ledger.trials("small")]
    over = new_figure(4.0, 3.0).subplots()
    places(over, ledger.campaign("small"), trials, ("x1", "x2"))
    assert {tuple(place) for marks in over.collections for place in marks.get_offsets()} == {(4.0, 5.0)}
    drawn = where(ledger.campaign("small"), trials).data
    assert {(x, y) for trace in drawn for x, y in zip(trace["x"], trace["y"], strict=True)} == {(4.0, 5.0)}
    through = parallel(ledger.campaign("small"), trials)
    assert {"4", "5"} < {note["text"] for note in through.layout["annotations"]}


@pytest.mark.parametrize("count", [1, 3])
def test_an_axis_of_trials_has_whole_numbers(finished, count):
    ledger = ledger_of(finished / "home")
    axis = new_figure(7.4, 3.4).subplots()
    progress(axis, ledger.campaign("small"), ledger.trials("small")[:count], None)
    low, high = axis.get_xlim()
    assert [tick for tick in axis.get_xticks() if low <= tick <= high] == list(range(1, count + 1))


def test_designs_that_are_no_places_are_drawn_in_parallel_coordinates(vessel, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_PLUGINS", str(vessel.campaign.settings.plugins[0]))
    shown = Read(written(vessel.campaign.settings.home, "vessel"))
    assert "One line for a completed trial" in shown.text
    assert "share of the total effect: width" in shown.text
    assert "really run" not in shown.text


def test_solutions_of_the_equation_have_no_residual_and_other_functions_have(plate):
    best = best_trial(plate.ledger.campaign("plate"), plate.ledger.trials("plate"))
    missed = believed(plate, best, ("x", "y")).missed
    assert missed.values.shape == (61, 61)
    assert missed.curvature > 1.0
    assert missed.values.max() < 1e-7 * missed.curvature
    assert missed.at_points.shape == (16,)
    assert np.array_equal(missed.axes[0][[0, -1]], [0.0, 2 * np.pi])


def test_the_residual_is_that_of_the_equation_in_physical_units(tmp_path):
    (tmp_path / "mine" / "problems").mkdir(parents=True)
    (tmp_path / "mine" / "problems" / "dome.py").write_text(DOME)
    site = began(tmp_path, DOME_FILE, (tmp_path / "mine",))
    read(site, 20, lambda d: 3.0 - d["x"] ** 2 - d["y"] ** 2 + d["x"] * d["y"])
    missed = believed(site, site.ledger.trials("dome")[0]).missed
    assert missed.values.max() < 1e-6  # of f_xx + f_yy = -4, on a box that is longer than it is wide
    assert missed.curvature == pytest.approx(np.sqrt((4 + 4 + 1 + 1) / 4), rel=0.02)


def test_a_lost_checkpoint_is_named_on_a_page_that_is_written_all_the_same(finished):
    home = finished / "home"
    *_, model = [product for product in ledger_of(home).products("small") if product.step == "train"]
    shutil.rmtree(fields_at(home / "fields").path(model.reference))
    shown = Read(written(home))
    assert "manifest.json is missing" in shown.text
    assert all(title in shown.texts for title in SECTIONS)


def test_a_campaign_whose_problem_is_gone_is_told_from_its_records(vessel):
    shown = Read(written(vessel.campaign.settings.home, "vessel"))  # without its plug-ins
    assert "Not shown, components: problem.kind: No kind 'vessel' in problems" in shown.text
    assert "24 completed" in shown.text


def foreseen(finished: Path) -> str:
    shown = Read(written(finished / "home")).text
    return shown[shown.index("Surrogate beside") : shown.index("Queue and decisions")]


def test_a_prediction_in_a_table_has_the_figures_that_its_standard_deviation_leaves():
    assert foreseen_cell((100000.2286, 0.248207)) == "100000.23 ± 0.248"
    assert (foreseen_cell((1.5, 0.0)), foreseen_cell(None)) == ("1.5", "")


def test_only_designs_that_ran_as_they_were_foreseen_are_held_against_the_model(finished):
    assert "over 1 trial." in foreseen(finished)
    ledger = ledger_of(finished / "home")
    trial = ledger.trial("small-0003")
    (result,) = ledger.results(trial.id)
    ran = {**trial.design, "x1": trial.design["x1"] + 0.5}
    ledger.correct(trial.id, trial.expect, result.id, trial.outputs, trial.field, "ana", "moved", {}, ran=ran)
    assert "Predicted against simulated" not in foreseen(finished)


def test_a_page_tells_of_retractions_standard_deviations_and_notes(finished):
    ledger = ledger_of(finished / "home")
    said = {"sd": {"value": 0.25}, "note": HOSTILE}
    trial = ledger.trial("small-0001")
    (result,) = ledger.results(trial.id)
    ledger.correct(trial.id, trial.expect, result.id, {"value": 20.0}, None, "ana", "read wrongly", said)
    shown = Read(written(finished / "home")).texts
    assert f"corrected; sd value 0.25; {SHOWN}" in shown, "among the trials"
    assert f"sd value 0.25; {SHOWN}" in shown, "among the results"
    for trial in ledger.trials("small"):
        ledger.correct(trial.id, trial.expect, ledger.results(trial.id)[-1].id, None, None, "ana", "the wrong oven", {})
    shown = Read(written(finished / "home")).texts
    assert "No result counts: 3 retracted." in shown
    assert shown.count("retracted") == 6  # a decision and a remark of each
    assert shown.count("corrected") == 1  # the decision of before


def test_a_laboratorys_page_speaks_of_experiments_and_draws_no_time_that_nobody_told(tmp_path, monkeypatch):
    at = bench(tmp_path, OVEN_CAMPAIGN, monkeypatch)
    at.order()
    assert at.run("record", "oven-0001", "--value", "strength=51", "--value", "porosity=-1")[0] == 0
    shown = Read(written(at.settings.home, "oven"))
    assert "simulat" not in shown.text.partition("Provenance")[0]
    assert "Surrogate beside experiment" in shown.texts
    assert "3 of 5 sent" in shown.texts
    assert {"foreseen (MPa)", "spent (EUR)"} <= set(shown.texts), "a unit at every head of numbers that have one"
    assert "Time by trial" not in shown.texts
    (when,) = {text for text in shown.texts if text.startswith("Maximise")}
    assert re.search(r"As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; begun", when)


CURED = """\
name: cured
seed: 1
sense: maximize
problem:
  kind: declared
  variables:
    - {name: glue, choices: [A, B]}
    - {name: wave, low: 1550.0, high: 1550.01, unit: nm}
    - {name: cure, low: 20, high: 90, unit: degC, only_if: {glue: [B]}}
  results: [{name: strength, unit: MPa}]
algorithm: {start: {n: 4}}
approval: auto
dispatcher: {kind: lab}
budget: {trials: 8}
"""


def test_the_table_of_trials_has_settings_as_other_pages_and_none_that_does_not_exist(tmp_path, monkeypatch):
    at = bench(tmp_path, CURED, monkeypatch)
    at.make_pass()
    trials, page = at.ledger.trials("cured"), written(at.settings.home, "cured")
    assert {trial.design["glue"] for trial in trials} == {"A", "B"}
    for trial in trials:
        (line,) = re.findall(rf"<tr[^>]*><td>{trial.id}</td>.*?</tr>", page.partition(">Trials<")[2])
        glue, wave, cure = re.findall(r"<td[^>]*>(.*?)</td>", line)[3:6]
        asked = setting(at.ledger.campaign("cured"), "cure", trial.design["cure"], unit=False)
        assert (glue, cure) == (trial.design["glue"], asked if glue == "B" else "")
        assert len(wave) == len("1550.123456") and float(wave) == pytest.approx(trial.design["wave"], abs=1e-6)


def test_a_campaign_without_a_trial_has_a_page(tmp_path):
    site = began(tmp_path, SMALL)
    shown = Read(written(site.campaign.settings.home))
    assert "No trial has a result yet." in shown.text
    assert shown.all("figure") == []


def test_a_page_is_refused_under_another_ending_and_nothing_is_written(finished, capsys):
    assert main(["report", "small", "--html", str(finished / "page.pdf"), "--home", str(finished / "home")]) == 2
    assert "a page cannot be written as '.pdf'. Name an .html file." in capsys.readouterr().err
    assert not (finished / "page.pdf").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("report", "small", "--html", "nodir/x.html"),
        ("compare-runs", "small", "small2", "--html", "nodir/x.html"),
        ("plot", "small", "nodir/x.html"),
        ("export", "small", "--csv", "nodir/x.html"),
    ],
)
def test_a_file_in_no_folder_is_refused_by_the_name_that_was_given(finished, capsys, words):
    assert main([*words, "--home", str(finished / "home")]) == 2
    assert "nodir/x.html: there is no folder nodir. Make it first, or name another place." in capsys.readouterr().err


def test_a_picture_may_have_its_ending_in_capitals(finished):
    file = finished / "small.PNG"
    assert main(["plot", "small", str(file), "--home", str(finished / "home")]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_report_is_attached_to_the_run_in_mlflow_once_that_is_there(finished, capsys, monkeypatch, tmp_path):
    home, file = finished / "home", finished / "page.html"
    words = ["report", "small", "--html", str(file), "--home", str(home), "--json"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["mlflow"], said["problem"]) == (None, "FIELDCRAFT_MLFLOW is off")
    assert said["bytes"] == file.stat().st_size
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", uri)
    assert main(words) == 0
    assert "not shown there; run `fieldcraft export mlflow`" in json.loads(capsys.readouterr().out)["problem"]
    assert main(["export", "mlflow", "--home", str(home)]) == 0
    capsys.readouterr()
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    client = mlflow.tracking.MlflowClient(uri)
    assert client.get_run(said["mlflow"]).data.tags["fieldcraft.kind"] == "campaign"
    stored = Path(client.download_artifacts(said["mlflow"], "report.html", str(tmp_path)))
    assert stored.read_bytes() == file.read_bytes()
    assert [link["href"] for link in Read(file.read_text(encoding="utf-8")).all("a")] == [
        f"http://127.0.0.1:5000/#/runs/{said['mlflow']}"
    ]
    client.delete_run(said["mlflow"])
    assert main(words) == 0
    assert "was deleted there: restore it in MLflow" in json.loads(capsys.readouterr().out)["problem"]
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "http://ana:secret@127.0.0.1:9/")  # where nothing answers
    assert main(words) == 0
    assert [link["href"] for link in Read(file.read_text(encoding="utf-8")).all("a")] == [
        f"http://127.0.0.1:9/#/runs/{said['mlflow']}"
    ]


def test_what_a_pass_rejects_for_the_budget_is_no_decision_of_people():
    moved = {"trial": "heat-0001", "action": "move", "after": TrialState.REJECTED}
    passes, anas = (SimpleNamespace(**moved, by=who) for who in (ACTOR, "ana"))
    assert decisions_of([passes, anas]) == ([anas], 0)
