"""Study files, cells, folders and what is computed from finished cells."""

import dataclasses
import hashlib
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.jobs.job_folder import write_json
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.studies.page.mlflow_runs import Showing
from fieldcraft.flows.studies.page.page import study_page
from fieldcraft.flows.studies.page.text import results_text
from fieldcraft.flows.studies.plan import folder as folders
from fieldcraft.flows.studies.plan.cost import Cost
from fieldcraft.flows.studies.plan.folder import StudyFolder, add_spent
from fieldcraft.flows.studies.plan.spec import StudySpec, cells_of, read_study
from fieldcraft.flows.studies.running import Study
from fieldcraft.flows.studies.scoring.results import results, with_regrets
from fieldcraft.flows.studies.scoring.tests_and_ranks import adjusted, curve, mean_ranks, ranks, smaller, summary
from fieldcraft.flows.studies.scoring.truth import measured
from fieldcraft.flows.views.regret import optimum_of, regret_of
from fieldcraft.flows.wiring.build import rewire, wire
from fieldcraft.physics.problems import branin
from fieldcraft.physics.problems.branin import Branin
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.trackers.mlflow_names import artifacts

ROOT = Path(__file__).resolve().parents[3]

STUDY = """\
name: s
seeds: 3
problems:
  - {problem: {kind: branin}, sense: minimize, start: {n: 2}, budget: {trials: 4}}
  - {label: twice, problem: {kind: branin}, sense: minimize, start: {n: 2}, budget: {trials: 4}, seeds: 1}
algorithms:
  - {kind: sobol}
  - {label: gp, surrogate: {kind: exact_gp}, acquisition: {kind: log_ei}, maximizer: {kind: multistart}}
"""


def study(tmp_path: Path, text: str = STUDY) -> StudySpec:
    (tmp_path / "s.yaml").write_text(text)
    return read_study(tmp_path / "s.yaml")[0]


def found(cell: str, values: list[float], **keys: Any) -> dict[str, Any]:
    """A finished cell whose results are exact, but for those given as ``readings``."""
    readings = keys.pop("readings", values)
    trials = [
        {"trial": str(n), "origin": "initial", "design": {"x": value}, "reading": reading, "true": value}
        for n, (value, reading) in enumerate(zip(values, readings, strict=True))
    ]
    about = {"objective": "value", "unit": "K", "maximize": False, "noise_sd": 0.0, "optimum": 0.0, "range": 100.0}
    more = {"physics": False, "oracle": False, "digest": "d", "sentence": "sobol", "finished": "budget"}
    return {"cell": cell, "trials": trials, **about, **more, **keys}


def filled(tmp_path: Path, text: str, values: dict[str, list[float]], **keys: Any) -> tuple[StudySpec, StudyFolder]:
    """A study whose cells found these true values."""
    spec, folder = study(tmp_path, text), StudyFolder(tmp_path / "out")
    for cell in cells_of(spec):
        folder.begin(cell)
        if cell.name in values:
            (folder.home(cell) / "result.json").write_text(json.dumps(found(cell.name, values[cell.name], **keys)))
    return spec, folder


def test_cells_run_seed_by_seed_so_that_an_early_stop_leaves_whole_seeds(tmp_path):
    names = [cell.name for cell in cells_of(study(tmp_path))]
    first = ["branin-sobol-1", "branin-gp-1", "twice-sobol-1", "twice-gp-1"]
    assert names == [*first, "branin-sobol-2", "branin-gp-2", "branin-sobol-3", "branin-gp-3"]


def test_a_problem_may_be_left_to_some_algorithms(tmp_path):
    spec = study(tmp_path, STUDY.replace("seeds: 1}", "seeds: 1, algorithms: [gp]}"))
    assert [cell.name for cell in cells_of(spec) if cell.problem.name == "twice"] == ["twice-gp-1"]


def test_the_cells_of_a_seed_are_the_same_campaign_but_for_name_and_algorithm(tmp_path):
    one, other = (cell.campaign for cell in cells_of(study(tmp_path))[:2])
    assert one["algorithm"] == {"kind": "sobol", "start": {"n": 2}}
    assert other["algorithm"]["surrogate"] == {"kind": "exact_gp"} and other["algorithm"]["start"] == {"n": 2}
    assert {**one, "name": "", "algorithm": {}} == {**other, "name": "", "algorithm": {}}
    assert one["dispatcher"]["kind"] == "inline" and one["seed"] == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: twice, ", "", r"two problems are labelled 'branin': give each its own label"),
        ("label: gp", "label: sobol", r"two algorithms are labelled 'sobol'"),
        ("seeds: 1}", "algorithms: [sobel]}", r"labelled 'sobel'\. Did you mean 'sobol'\? Known: sobol, gp"),
        ("seeds: 1}", "algorithms: []}", r"problems\.twice\.algorithms is empty"),
        ("- {kind: sobol}\n", "sobol\n#", r"algorithms: Input should be a valid list, \[a, b\] \(given: '"),
        ("seeds: 3", "reference: ei", r"reference: no algorithm is labelled 'ei'"),
        ("seeds: 3", "seeds: 0", r"seeds: Input should be greater than or equal to 1 \(given: 0\)"),
        ("seeds: 3", "limit: {core_hour: 1}", r"limit.core_hour: unknown key 'core_hour'\. Did you mean 'core_hours'"),
        ("seeds: 1}", "sed: 1}", r"problems.1.sed: unknown key 'sed'\. Did you mean 'seeds'"),
        ("{kind: sobol}", "{kind: sobol, start: {n: 3}}", r"start belongs to the problems of a study"),
        ("label: gp, ", "", r"neither a label nor a kind: give an algorithm in words a label"),
        (
            "{kind: sobol}",
            "{label: sobol}",
            r"a label and nothing else: give a kind, or surrogate, acquisition and max",
        ),
        ("{kind: sobol}", "{label: a, collocation: {n: 8}}", r"algorithms\.0: a label and nothing else"),
        (
            "{kind: sobol}",
            "{label: a, named: {kind: auto}}",
            r"named is what the program notes .*: give its name as",
        ),
        ("seeds: 3", "seeds: 1001", r"seeds: Input should be less than or equal to 1000 \(given: 1001\)"),
        ("seeds: 3", "seeds: true", r"seeds: true and false .* \(given: True\)"),
        ("seeds: 3", "experiment: ../up", r"experiment: Give at most 60 letters .* first \(given: '\.\./up'\)"),
        ("label: gp", "label: a-b", r"algorithms.1.label: Give at most 40 letters"),
        ("label: gp", f"label: {'g' * 40}", None),
        ("label: twice", f"label: {'t' * 40}", None),
    ],
)
def test_an_impossible_study_is_refused_in_one_line(tmp_path, old, new, message):
    assert old in STUDY
    if message is None:  # either label alone is short enough
        study(tmp_path, STUDY.replace(old, new))
        both = STUDY.replace("label: gp", f"label: {'g' * 40}").replace("label: twice", f"label: {'t' * 40}")
        with pytest.raises(InputError, match="is over 60 characters, as a campaign's name: shorten a label"):
            study(tmp_path, both)
        return
    with pytest.raises(InputError, match=message) as caught:
        study(tmp_path, STUDY.replace(old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["problems", "algorithms"])
def test_an_empty_study_is_refused(tmp_path, key):
    lines = [line for line in STUDY.splitlines() if not line.startswith("  -")]
    full = {"problems": "problems: []", "algorithms": "algorithms: [{kind: sobol}]"}
    if key == "algorithms":
        full = {
            "problems": "problems: [{problem: {kind: branin}, sense: minimize, start: {n: 2}, budget: {trials: 4}}]",
            "algorithms": "algorithms: []",
        }
    text = "\n".join(full.get(line.rstrip(":"), line) for line in lines)
    with pytest.raises(InputError, match=rf"s\.yaml: line [34]: {key}: is empty\. Give at least one \(given: \[\]\)$"):
        study(tmp_path, text)


def test_one_mistake_is_one_sentence_and_the_file_is_not_printed(tmp_path):
    with pytest.raises(InputError, match="unknown key") as caught:
        study(tmp_path, STUDY.replace("seeds: 1}", "sed: 1}"))
    assert (
        str(caught.value) == f"{tmp_path / 's.yaml'}: line 5: problems.1.sed: unknown key 'sed'. Did you mean 'seeds'?"
    )
    with pytest.raises(InputError, match=r"holds a list, not a mapping\. Begin from studies/quick\.yaml\.$"):
        study(tmp_path, "- 1\n")


@pytest.mark.parametrize(
    ("command", "file", "message"),
    [
        (
            "check",
            "studies/quick.yaml",
            "line 6: problems: is a key of a study, and this is no campaign. Run it with fieldcraft compare.",
        ),
        (
            "compare",
            "campaigns/heat.yaml",
            "line 6: problem: is a key of a campaign, and this is no study. Run it with fieldcraft run.",
        ),
    ],
)
def test_a_study_and_a_campaign_that_are_taken_for_each_other_are_told_apart(command, file, message, capsys):
    file = str(Path(__file__).parents[3] / file)
    assert main([command, file]) == 2
    assert capsys.readouterr().err == f"fieldcraft: {file}: {message}\n"


@pytest.mark.parametrize("file", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_campaign_of_the_studies_here_can_be_begun(file, tmp_path, monkeypatch):
    monkeypatch.setenv("HEBO_PYTHON", sys.executable)
    settings = settings_from({"FIELDCRAFT_PLUGINS": str(ROOT / "studies" / "plugins")}, tmp_path)
    spec = read_study(file)[0]
    digests = Study(spec, StudyFolder(tmp_path), settings, 1).digests()
    assert len(set(digests.values())) == len(cells_of(spec)), "no two campaigns are the same"
    last = cells_of(spec)[-1]
    assert digests[last.name] == wire(parse(last.campaign, "campaign"), settings).digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "kind: exact_gp",
            "kind: exact_pg",
            "gp on branin: No kind 'exact_pg' in surrogates. Did you mean 'exact_gp'?",
        ),
        ("{kind: sobol}", "{kind: sobel}", "sobel on branin: No kind 'sobel' in algorithms. Did you mean 'sobol'?"),
        (
            "label: twice, problem: {kind: branin}",
            "label: twice, problem: {kind: digits}, simulator: {kind: exact}",
            "line 5: problems.1.simulator: sobol on twice: The simulator 'exact' cannot run Digits: it needs `exact`",
        ),
        ("trials: 4}, seeds", "trials: 1}, seeds", "budget.trials is 1 and algorithm.start.n is 2"),
        ("trials: 4}, seeds", "trials: 4}, noise: {sd: -1}, seeds", "problems.1.noise.sd: Input should be greater"),
    ],
)
def test_the_command_refuses_a_study_with_an_impossible_campaign_before_anything_is_begun(
    tmp_path, capsys, old, new, message
):
    (tmp_path / "s.yaml").write_text(STUDY.replace(old, new))
    assert main(["compare", str(tmp_path / "s.yaml"), "--home", str(tmp_path / "home")]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_a_study_of_more_campaigns_than_a_disk_has_room_for_is_refused_at_once(tmp_path):
    one = "  - {label: p%d, problem: {kind: branin}, sense: minimize, start: {n: 2}, budget: {trials: 4}}"
    many = "\n".join(one % number for number in range(60))
    head, _, tail = STUDY.partition("problems:\n")
    text = f"{head.replace('3', '1000')}problems:\n{many}\nalgorithms:{tail.partition('algorithms:')[2]}"
    with pytest.raises(InputError, match=r"s\.yaml: the study has 120,000 campaigns, and may have 100,000"):
        study(tmp_path, text)


def test_a_study_all_of_whose_campaigns_failed_does_not_exit_0(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FIELDCRAFT_MLFLOW", "off")
    spec, folder = filled(tmp_path, STUDY, {})
    words = ["compare", str(tmp_path / "s.yaml"), "--out", str(folder.path), "--home", str(tmp_path / "home")]
    for cell in cells_of(spec):
        folder.fail(cell, "KeyError: 'z'")
    assert main(words) == 1
    assert (
        "failed: branin-sobol-1, branin-gp-1, twice-sobol-1, twice-gp-1 and 4 more: KeyError: 'z'"
        in capsys.readouterr().out
    )


def test_a_campaign_of_a_study_without_a_result_repeats_why(tmp_path):
    spec, folder = filled(tmp_path, STUDY, {"branin-gp-1": [1.0]}, fruitless="all 4 trials failed: KeyError: 'z'")
    file = folder.home(cells_of(spec)[1]) / "result.json"
    known = json.loads(file.read_text())
    for trial in known["trials"]:
        trial["true"] = None
    file.write_text(json.dumps(known))
    assert "failed: branin-gp-1: no result: all 4 trials failed: KeyError: 'z'" in results_text(
        results(spec, folder, None)
    )


def test_a_number_of_workers_below_one_is_refused(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(STUDY)
    assert main(["compare", str(tmp_path / "s.yaml"), "--parallel", "0", "--home", str(tmp_path)]) == 2
    assert "argument --parallel: '0' is no number from 1 to 1,000: give one" in capsys.readouterr().err


def test_a_cell_that_was_begun_as_another_campaign_is_refused(tmp_path):
    spec, folder = filled(tmp_path, STUDY, {})
    other = study(tmp_path, STUDY.replace("kind: exact_gp", "kind: exact_gp, noise: known"))
    with pytest.raises(
        InputError, match=r"'branin-gp-1' was begun with another campaign \(.*noise: \(absent\) -> known"
    ):
        folder.begin(cells_of(other)[1])
    folder.begin(cells_of(spec)[1])


def test_no_algorithm_of_a_study_begins_in_the_middle_where_test_functions_have_their_optimum(tmp_path):
    text = STUDY.replace("{kind: branin}", "{kind: levy, dimension: 10}").replace(
        "  - {kind: sobol}\n", "  - {kind: gp_ei}\n"
    )
    spec, folder = filled(tmp_path, text, {})
    cell = cells_of(spec)[0]
    assert cell.campaign["algorithm"] == {"kind": "gp_ei", "start": {"n": 2, "proposer": {"kind": "sobol"}}}
    asked = study(tmp_path, text.replace("start: {n: 2}", "start: {n: 2, proposer: {kind: centred}}"))
    assert cells_of(asked)[0].campaign["algorithm"]["start"]["proposer"]["kind"] == "centred"
    file = folder.home(cell) / "campaign.json"
    file.write_text(json.dumps(cell.campaign | {"algorithm": {"kind": "gp_ei", "start": {"n": 2}}}))
    assert folder.require_same(cell)
    with pytest.raises(InputError, match=r"begun with another campaign \(algorithm.start.proposer"):
        folder.require_same(cells_of(asked)[0])


def test_a_study_that_is_refused_for_one_cell_has_changed_no_other(tmp_path):
    spec, folder = filled(tmp_path, STUDY.replace("  - {kind: sobol}\n", ""), {})
    folder.fail(cells_of(spec)[0], "it diverged")
    before = sorted((file, file.read_text()) for file in (folder.path / "cells").rglob("*.json"))
    changed = study(tmp_path, STUDY.replace("kind: exact_gp", "kind: exact_gp, restarts: 1"))
    with pytest.raises(InputError, match="'branin-gp-1' was begun with another campaign"):
        Study(changed, folder, settings_from({"FIELDCRAFT_MLFLOW": "off"}, tmp_path), 1).run(print, again=True)
    assert sorted((file, file.read_text()) for file in (folder.path / "cells").rglob("*.json")) == before


def test_a_finished_cell_of_other_code_is_never_mixed_with_new_ones(tmp_path, monkeypatch):
    one = STUDY.replace("  - {kind: sobol}\n", "").replace("seeds: 3", "seeds: 1")
    spec, folder = filled(tmp_path, one, {"branin-gp-1": [1.0]})
    with pytest.raises(InputError, match=r"'branin-gp-1' ended as a campaign with the digest d; the file and this"):
        Study(spec, folder, settings_from({"FIELDCRAFT_MLFLOW": "off"}, tmp_path), 1).run(lambda cell, said: None)


PLUGINS = """\
name: s
seeds: 1
problems:
  - {problem: {kind: mine}, sense: minimize, start: {n: 2}, budget: {trials: 2}}
  - {problem: {kind: yours}, sense: minimize, start: {n: 2}, budget: {trials: 2}}
algorithms: [{kind: sobol}]
"""


def test_a_finished_cell_of_a_plugin_that_was_changed_is_never_mixed_with_new_ones(tmp_path):
    own = tmp_path / "own"
    (own / "problems").mkdir(parents=True)
    for name in ("mine", "yours", "unused"):
        helper = "helper" if name == "mine" else "math"
        text = f"import {helper}\nfrom dataclasses import dataclass\nfrom {branin.__name__} import Branin\n"
        (own / "problems" / f"{name}.py").write_text(f"{text}@dataclass(frozen=True)\nclass Own(Branin): pass\n")
    (own / "helper.py").write_text("SCALE = 1\n")
    settings = settings_from({"FIELDCRAFT_MLFLOW": "off", "FIELDCRAFT_PLUGINS": str(own)}, tmp_path)
    spec, folder = study(tmp_path, PLUGINS), StudyFolder(tmp_path / "out")
    whole = Study(spec, folder, settings, 1)
    sums = {str(file.relative_to(own)): hashlib.sha256(file.read_bytes()).hexdigest() for file in own.rglob("*.py")}
    for name, digest in whole.digests().items():
        (cell,) = (cell for cell in cells_of(spec) if cell.name == name)
        folder.begin(cell)
        ended = found(name, [1.0, 2.0], digest=digest, environment={"plugins": sums})
        (folder.home(cell) / "result.json").write_text(json.dumps(ended))

    def run() -> None:
        whole.run(lambda cell, said: None)

    run()
    for file, cell in {"problems/mine.py": "mine-sobol-1", "problems/yours.py": "yours-sobol-1"}.items():
        text = (own / file).read_text()
        (own / file).write_text(text + "# changed\n")
        with pytest.raises(InputError, match=rf"cell '{cell}' ended with another .*{file} than there is now\. Restore"):
            run()
        (own / file).write_text(text)
    (own / "problems/unused.py").write_text("# of no campaign of this study\n")
    run()
    (own / "helper.py").write_text("SCALE = 2\n")
    with pytest.raises(InputError, match=r"another .*helper\.py than there is now"):
        run()


def test_a_study_is_run_by_one_process_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_PATIENCE_S", 0.1)
    folder = StudyFolder(tmp_path)
    refused = pytest.raises(FieldcraftError, match="another process works on this study")
    with folder.locked(), refused, folder.locked():
        pass
    with folder.locked():
        pass


def test_what_a_pass_cost_is_kept_though_a_kill_tore_the_line_before(tmp_path):
    spec, folder = filled(tmp_path, STUDY, {})
    cell = cells_of(spec)[0]
    add_spent(folder.home(cell), {"cpu": 1.5, "proposing": 0.0, "proposed": 0})
    with (folder.home(cell) / "spent.jsonl").open("a") as file:
        file.write('{"cpu": 7.0, "propo')
    add_spent(folder.home(cell), {"cpu": 2.5, "proposing": 2.0, "proposed": 4})
    assert [line["cpu"] for line in folder.spent(cell)] == [1.5, 2.5]
    told = results(spec, folder, "why")["cells"][0]
    assert (told["cpu"], told["cpu_per_proposal"], told["state"], told["reason"]) == (4.0, 0.5, "begun", "why")


def test_regret_is_that_of_the_best_reading_and_visited_that_of_the_best_design():
    cell = with_regrets(found("c", [9.0, 4.0, 6.0, 0.5], readings=[9.0, 5.0, 3.0, 8.0]), 0.0)
    assert cell["regret"] == [9.0, 4.0, 6.0, 6.0]
    assert cell["visited"] == [9.0, 4.0, 4.0, 0.5]
    assert cell["arrived"] == 4, "0.5 is within 1% of a range of 100"
    assert cell["best_design"] == {"x": 6.0}
    up = with_regrets(found("c", [1.0, 7.0], maximize=True), 10.0)
    assert up["regret"] == up["visited"] == [9.0, 3.0] and up["arrived"] is None


def test_trials_without_a_reading_leave_the_regret_as_it_was():
    cell = found("c", [9.0, 4.0, 2.0])
    for failed in (0, 2):
        cell["trials"][failed] |= {"reading": None, "true": None}
    assert with_regrets(cell, 1.0)["regret"] == [None, 3.0, 3.0]


def test_a_summary_has_mean_error_median_and_normality():
    of = summary([1.0, 2.0, 6.0])
    assert (of.n, of.mean, of.median) == (3, 3.0, 2.0)
    assert of.error == pytest.approx(math.sqrt(7.0 / 3.0))
    assert of.normality is not None and 0.5 < of.normality <= 1.0
    assert summary([1.0] * 40 + [1000.0]).normality < 1e-6
    assert (summary([2.0]).error, summary([2.0, 2.0, 2.0]).normality) == (None, None)


def test_the_test_is_welchs_and_one_sided():
    a, b = [1.0, 2.0, 3.0], [3.0, 5.0, 10.0, 6.0]
    t = (np.mean(a) - np.mean(b)) / math.sqrt(np.var(a, ddof=1) / 3 + np.var(b, ddof=1) / 4)
    own, other = np.var(a, ddof=1) / 3, np.var(b, ddof=1) / 4
    freedom = (own + other) ** 2 / (own**2 / 2 + other**2 / 3)
    assert smaller(a, b) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-9)
    assert smaller(a, b) < 0.04
    assert smaller(a, b) + smaller(b, a) == pytest.approx(1.0)
    assert smaller([1.0], b) is None and smaller([1.0, 1.0], [2.0, 2.0]) is None


def test_p_values_are_adjusted_for_their_number():
    assert adjusted([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.04), pytest.approx(0.04)]
    assert adjusted([None]) == [None]


def test_mean_ranks_are_among_those_that_ran_everywhere():
    by_problem = {"one": {"a": 1.0, "b": 2.0, "c": 0.5}, "two": {"a": 3.0, "b": 3.0}}
    assert ranks(by_problem["one"]) == {"a": 2.0, "b": 3.0, "c": 1.0}
    found = mean_ranks(by_problem)
    assert list(found) == ["a", "b"]
    assert (found["a"]["mean"], found["b"]["mean"]) == (1.25, 1.75)
    assert (found["a"]["best"], found["a"]["last"], found["b"]["last"]) == (2, 1, 2)


def test_a_curve_begins_where_all_campaigns_have_a_reading():
    of = curve([[None, 4.0, 2.0], [8.0, 6.0]])
    assert of["mean"] == [None, 5.0, None]
    assert of["error"][1] == pytest.approx(1.0)


def test_results_tell_finished_failed_begun_and_not_reached_cells_apart(tmp_path):
    values = {f"branin-{name}-{seed}": [5.0, last] for name, last in (("sobol", 4.0), ("gp", 1.0)) for seed in (1, 2)}
    values["branin-gp-2"][1] = 2.0
    spec, folder = filled(tmp_path, STUDY.replace("seeds: 3", "seeds: 3\nreference: gp"), values)
    cells = {cell.name: cell for cell in cells_of(spec)}
    folder.fail(cells["branin-gp-3"], "ValueError: it diverged")
    add_spent(folder.home(cells["twice-gp-1"]), {"cpu": 36.0, "proposing": 0.0, "proposed": 0})
    data = results(spec, folder, "limit.core_hours of 1 was reached")
    states = {cell["cell"]: cell["state"] for cell in data["cells"]}
    assert states["branin-gp-1"] == "finished" and states["branin-gp-3"] == "failed"
    assert (states["twice-gp-1"], states["twice-sobol-1"]) == ("begun", "not reached")
    branin, twice = data["problems"]
    assert [(row["algorithm"], row["n"], row["mean"], row["rank"]) for row in branin["rows"]] == [
        ("gp", 2, 1.5, 1.0),
        ("sobol", 2, 4.0, 2.0),
    ]
    assert branin["rows"][1]["q"] == branin["rows"][1]["p"] < 0.1 and branin["rows"][0]["p"] is None
    assert branin["rows"][0]["arrived"] == 1 and branin["rows"][0]["arrived_median"] is None
    assert twice["rows"] == [] and list(data["ranks"]) == ["gp", "sobol"]
    text, html = results_text(data), study_page(data)
    assert "4 of 8 cells finished, 0.01 core-hours" in text
    assert "failed: branin-gp-3: ValueError: it diverged" in text
    for said in ("ValueError: it diverged", "limit.core_hours of 1 was reached", "twice-sobol-1", "Mean ranks"):
        assert said in html
    assert "<script src" not in html and "http://" not in html and "https://" not in html
    assert "until then, where more than half of them did" in html, "and of two of which one arrived there is none"
    behind = html.partition("<summary>Data: mean regret")[2].partition("</details>")[0]
    lines = [re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in behind.split("<tr>")[2:]]
    known = [[float(cell.partition(" ± ")[0]) for cell in line] for line in lines]
    assert known == [[n + 1, *(row["curve"]["mean"][n] for row in branin["rows"])] for n in range(len(known))] != []


def test_all_that_share_the_best_mean_rank_are_named(tmp_path):
    values = {f"{problem}-{name}-1": [1.0] for problem in ("branin", "twice") for name in ("gp", "sobol")}
    data = results(*filled(tmp_path, STUDY.replace("seeds: 3", "seeds: 1"), values), None)
    assert {name: rank["mean"] for name, rank in data["ranks"].items()} == {"gp": 1.5, "sobol": 1.5}
    assert "gp, sobol" in study_page(data)


def test_a_problem_whose_optimum_is_not_known_is_measured_by_the_best_of_the_study(tmp_path):
    values = {"branin-sobol-1": [5.0, 3.0], "branin-gp-1": [5.0, 4.0]}
    data = results(*filled(tmp_path, STUDY, values, optimum=None, range=None), None)
    branin = data["problems"][0]
    assert (branin["optimum"], branin["optimum_known"]) == (3.0, False)
    assert {row["algorithm"]: row["mean"] for row in branin["rows"]} == {"sobol": 0.0, "gp": 1.0}
    assert branin["rows"][0]["arrived"] is None
    assert "optimum 3 K (best of the study)" in results_text(data)


def test_a_problem_whose_equation_gives_the_answer_away_counts_for_no_rank_and_no_test(tmp_path):
    values = {f"branin-{name}-{seed}": [5.0, float(seed)] for name in ("sobol", "gp") for seed in (1, 2, 3)}
    values["twice-sobol-1"] = values["twice-gp-1"] = [2.0, 1.0]
    spec, folder = filled(tmp_path, STUDY, values)
    assert list(results(spec, folder, None)["ranks"]["gp"]["ranks"]) == ["branin", "twice"]
    for cell in cells_of(spec):
        if cell.problem.name == "branin":
            known = folder.result(cell)
            (folder.home(cell) / "result.json").write_text(json.dumps({**known, "oracle": True}))
    data = results(spec, folder, None)
    assert list(data["ranks"]["gp"]["ranks"]) == ["twice"] and data["tests"] == 0
    assert [row["mean"] for row in data["problems"][0]["rows"]] == [2.0, 2.0], "it is reported all the same"
    html = study_page(data)
    assert html.index("Problems whose equation was computed from the objective") < html.index("<h2>branin")


def test_a_cell_is_measured_by_the_exact_objective_and_else_by_its_stored_fields(finished):
    settings = settings_from({}, finished / "home")
    ledger = open_ledger(settings.ledger)
    campaign = rewire(ledger.campaign("small").spec, settings)
    of, trials = measured(campaign, ledger), ledger.trials("small")
    assert of["optimum"] == pytest.approx(0.397887358) and of["range"] == pytest.approx(308.129096 - 0.397887, rel=1e-5)
    for told, trial in zip(of["trials"], trials, strict=True):
        exact = float(campaign.problem.exact(np.array([list(trial.design.values())]))[0])
        assert told["true"] == exact and told["reading"] == trial.outputs["value"] != exact
    hidden = measured(dataclasses.replace(campaign, problem=_Hidden()), ledger)
    assert hidden["optimum"] is None and hidden["range"] is None
    assert [t["true"] for t in hidden["trials"]] == pytest.approx([t["true"] for t in of["trials"]], rel=1e-12)


def test_an_optimum_outside_a_narrowed_space_measures_no_regret(finished):
    settings = settings_from({}, finished / "home")
    ledger = open_ledger(settings.ledger)
    campaign, trial = rewire(ledger.campaign("small").spec, settings), ledger.trials("small")[0]
    corner = dataclasses.replace(campaign, space=campaign.space.narrowed({"x1": (-5.0, -4.0), "x2": (0.0, 1.0)}))
    assert optimum_of(corner) is None and regret_of(corner, trial) is None
    assert optimum_of(corner, "maximize").value == pytest.approx(308.129096, rel=1e-6), "that one is in the corner"
    of = measured(corner, ledger)
    assert of["optimum"] is None and of["range"] is None
    assert regret_of(campaign, trial)["optimum"] == pytest.approx(0.397887358)


def test_the_environment_of_a_campaign_is_kept_with_what_it_found(finished):
    settings = settings_from({}, finished / "home")
    ledger = open_ledger(settings.ledger)
    record = ledger.campaign("small")
    of = measured(rewire(record.spec, settings), ledger)["environment"]
    assert {"commit", "versions", "threads"} <= of.keys() and of.items() <= record.environment.items()
    assert not {"units", "resolved"} & of.keys()  # of the problem and its file: cells of another differ in them


class _Hidden(Branin):
    """Branin's function, of which nothing is known but what simulations say."""

    def exact(self, points):
        return None

    def optimum(self, sense):
        return None


def test_ranks_and_tests_count_only_seeds_that_every_algorithm_has_finished(tmp_path):
    values = {"branin-gp-1": [50.0, 1.0], "branin-gp-2": [50.0, 40.0], "branin-sobol-1": [50.0, 2.0]}
    data = results(*filled(tmp_path, STUDY, values), "limit")
    branin = data["problems"][0]
    assert [(row["algorithm"], row["n"], row["mean"], row["rank"]) for row in branin["rows"]] == [
        ("gp", 2, 20.5, 1.0),
        ("sobol", 1, 2.0, 2.0),
    ]
    assert branin["seeds"] == [1] and data["tests"] == 0 and data["ranks"]["gp"]["mean"] == 1.0
    for said in (results_text(data), study_page(data)):
        assert "ranks and tests over the 1 seed that all finished" in said
    apart = {"branin-gp-1": [2.0], "branin-sobol-2": [1.0]}
    (tmp_path / "apart").mkdir()
    of = results(*filled(tmp_path / "apart", STUDY, apart), "limit")
    assert [row["rank"] for row in of["problems"][0]["rows"]] == [None, None] and of["ranks"] == {}
    assert "Mean ranks" not in study_page(of)


def test_a_campaign_without_a_reading_is_a_failure_that_the_page_names(tmp_path):
    values = {"branin-sobol-1": [5.0, 3.0], "branin-gp-1": [5.0, 4.0]}
    spec, folder = filled(tmp_path, STUDY, values)
    mute = folder.home(next(cell for cell in cells_of(spec) if cell.name == "branin-gp-1")) / "result.json"
    told = json.loads(mute.read_text())
    mute.write_text(json.dumps({**told, "trials": [{**t, "reading": None, "true": None} for t in told["trials"]]}))
    data = results(spec, folder, None)
    assert [row["algorithm"] for row in data["problems"][0]["rows"]] == ["sobol"]
    assert "failed: branin-gp-1: no result" in results_text(data)
    assert "branin-gp-1" in study_page(data)


def test_campaigns_of_another_environment_are_named_and_the_usual_one_is_written_once(tmp_path):
    values = {f"branin-{name}": [5.0, 1.0] for name in ("sobol-1", "gp-1", "sobol-2")}
    usual = {"commit": "c0ffee", "threads": 1, "versions": {"torch": "2.1"}, "python": "3.12", "machine": "m"}
    spec, folder = filled(tmp_path, STUDY, values, environment=usual)
    other = folder.home(cells_of(spec)[0]) / "result.json"
    told = json.loads(other.read_text())
    assert results(spec, folder, None)["elsewhere"] == {}
    other.write_text(json.dumps({**told, "environment": {**usual, "versions": {"torch": "2.2"}}}))
    data = results(spec, folder, None)
    assert data["environment"] == usual and json.dumps(data).count("c0ffee") == 1
    assert data["elsewhere"] == {"branin-sobol-1": "versions.torch: 2.1 -> 2.2"}
    assert "begun in another environment: branin-sobol-1: versions.torch: 2.1 -> 2.2" in results_text(data)
    assert "versions.torch: 2.1 -&gt; 2.2" in study_page(data) and "c0ffee" in study_page(data)


def test_a_problem_without_a_common_reading_has_a_table_and_no_picture(tmp_path, recwarn):
    spec, folder = filled(tmp_path, STUDY, {f"branin-sobol-{seed}": [5.0, 3.0] for seed in (1, 2)})
    for seed, trials in ((1, slice(1)), (2, slice(2))):  # one ends before the other has its first result
        file = folder.path / f"cells/branin-sobol-{seed}/result.json"
        told = json.loads(file.read_text())
        if seed == 2:
            told["trials"][0] |= {"reading": None, "true": None}
        file.write_text(json.dumps({**told, "trials": told["trials"][trials]}))
    data = results(spec, folder, None)
    assert data["problems"][0]["rows"][0]["curve"]["mean"] == [None, None]
    html = re.sub(r"<script>.*?</script>", "", study_page(data), flags=re.DOTALL)
    assert "<h2>branin" in html and "<figure" not in html and "nan" not in html.lower()
    assert not recwarn.list


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("result.json", '{"a"', "Expecting ':' delimiter"),
        ("result.json", '{"a": 1}', "it has no 'cell'"),
        ("campaign.json", "[1]", "it holds a list"),
        ("failed.json", '{"a": 1}', "it has no 'error'"),
        ("spent.jsonl", '{"cpu": 1}', "it has no 'proposing'"),
        ("shown.json", "", "Expecting value"),
    ],
)
def test_a_damaged_file_of_a_study_is_one_clear_error(tmp_path, capsys, file, text, why):
    one = STUDY.partition("  - {label: twice")[0] + "algorithms: [{kind: sobol}]\n"
    _, folder = filled(tmp_path, one, {})
    damaged = folder.path / "cells" / "branin-sobol-1" / file
    damaged.write_text(text)
    assert main(["compare", str(tmp_path / "s.yaml"), "--out", str(folder.path), "--home", str(tmp_path / "home")]) == 2
    said = capsys.readouterr().err
    assert f"{damaged} is no file of a study: {why}" in said and said.count("\n") == 1


def test_a_folder_belongs_to_one_study(tmp_path):
    folder = StudyFolder(tmp_path)
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"holds no study, but 'thesis\.tex'\. Give an empty folder"):
        folder.claim("s")
    (tmp_path / "thesis.tex").unlink()
    folder.claim("s")
    folder.claim("s")
    with pytest.raises(InputError, match=r"holds the study 's', and this one is 't'\. Give another --out"):
        folder.claim("t")


def test_cells_that_failed_are_counted_as_done_unless_they_go_on(tmp_path):
    spec, folder = filled(tmp_path, STUDY, {"branin-sobol-1": [1.0]})
    folder.fail(cells_of(spec)[1], "it diverged")
    assert len(Cost(folder, cells_of(spec), again=False).over) == 2
    assert len(Cost(folder, cells_of(spec), again=True).over) == 1


def test_what_is_left_of_a_study_is_told_by_the_cells_most_like_it(tmp_path):
    spec, folder = filled(tmp_path, STUDY, {})
    cells = cells_of(spec)
    cost = Cost(folder, cells, again=False)
    assert cost.left is None and "the first to end will tell" in cost.text()
    first = cells[0]

    def ended(cell, seconds):
        add_spent(folder.home(cell), {"cpu": seconds, "proposing": 0.0, "proposed": 0})
        write_json(folder.home(cell) / "result.json", found(cell.name, [1.0]))
        cost.count(cell)

    ended(first, 3600.0)
    assert cost.left == 3600.0 * (len(cells) - 1), "the only one tells of all"
    same = [c for c in cells[1:] if (c.problem, c.algorithm) == (first.problem, first.algorithm)]
    other = next(c for c in cells if c.algorithm != first.algorithm)
    ended(other, 360.0)
    alike = [c for c in cells if (c.problem, c.algorithm) == (other.problem, other.algorithm) and c is not other]
    elsewhere = 3600.0 + 360.0  # the other problem's two cells, by their algorithms
    assert (len(same), len(alike), len(cells)) == (2, 2, 8)
    assert cost.left == 2 * 3600.0 + 2 * 360.0 + elsewhere
    add_spent(folder.home(same[0]), {"cpu": 600.0, "proposing": 0.0, "proposed": 0})
    begun = Cost(folder, cells, again=False)
    assert begun.left == cost.left - 600.0
    assert begun.text() == f"{len(cells) - 2} cells left, about {begun.left / 3600:.2g} core-hours"


def test_a_cell_is_shown_again_in_another_store_or_experiment(tmp_path):
    spec, folder = filled(tmp_path, STUDY, {"branin-sobol-1": [1.0]})
    cell = cells_of(spec)[0]

    def showing(study: StudySpec, host: str) -> Showing:
        return Showing(study, folder, settings_from({"FIELDCRAFT_MLFLOW": f"http://ben:secret@{host}"}, tmp_path))

    folder.show(cell, showing(spec, "one").where, "0123")
    assert "secret" not in (folder.home(cell) / "shown.json").read_text()
    assert showing(spec, "one").is_shown(cell)
    assert not showing(spec, "two").is_shown(cell)
    assert not showing(spec.model_copy(update={"experiment": "other"}), "one").is_shown(cell)


@pytest.mark.parametrize("name", ["../../up", "..", "a/b", "/etc"])
def test_an_experiments_artifacts_lie_beside_the_store_whatever_its_name(name):
    folder = artifacts("sqlite:////place/mlflow.db", name)
    assert folder is not None and folder.startswith("file:///place/artifacts/")
    assert "/" not in folder.removeprefix("file:///place/artifacts/").rstrip("/") and not folder.endswith("/..")


def test_a_study_whose_limit_is_spent_starts_nothing_and_says_what_was_not_reached(tmp_path):
    spec, folder = filled(tmp_path, STUDY.replace("seeds: 3", "seeds: 1\nlimit: {core_hours: 0.01}"), {})
    add_spent(folder.home(cells_of(spec)[0]), {"cpu": 36.0, "proposing": 0.0, "proposed": 0})
    study = Study(spec, folder, settings_from({"FIELDCRAFT_MLFLOW": "off"}, tmp_path / "home"), 1)
    ran = study.run(lambda cell, said: None)
    assert [cell["state"] for cell in ran.data["cells"]] == ["begun", *["not reached"] * 3]
    assert {cell["reason"] for cell in ran.data["cells"]} == {
        "limit.core_hours of 0.01 was reached: raise it, and the same command goes on"
    }
    assert not (tmp_path / "home").exists() and not (folder.path / "worker-0.log").exists()
