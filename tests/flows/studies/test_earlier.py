"""A study that goes on from the study.json of an earlier run, where the folder of that run is gone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_studies import found, study

from fieldcraft.flows.cli import main
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.studies.page.mlflow_runs import Showing
from fieldcraft.flows.studies.page.page import study_page
from fieldcraft.flows.studies.plan.cost import Cost
from fieldcraft.flows.studies.plan.earlier import earlier_run
from fieldcraft.flows.studies.plan.folder import StudyFolder, add_spent
from fieldcraft.flows.studies.plan.spec import StudySpec, cells_of
from fieldcraft.flows.studies.running import Study
from fieldcraft.flows.studies.scoring.results import results

ALL = {
    "branin-sobol-1": [9.0, 4.0, 6.0, 0.5],
    "branin-gp-1": [8.0, 3.0, 2.0, 2.5],
    "twice-sobol-1": [7.0, 7.0, 7.0, 6.0],
    "twice-gp-1": [7.0, 5.0, 1.0, 1.0],
    "branin-sobol-2": [3.0, 2.0, 2.0, 2.0],
    "branin-gp-2": [2.0, 1.0, 0.25, 0.25],
    "branin-sobol-3": [4.0, 4.0, 4.0, 4.0],
    "branin-gp-3": [5.0, 0.125, 3.0, 1.0],
}
READ = {"branin-gp-3": [5.0, 3.5, 3.0, 1.0]}  # its second design is better than it was read
EARLY, COMMITS = 6, {"a": 5, "b": 8}  # cells that the earlier run has, and up to which cell a commit ran


def made(spec: StudySpec, place: Path, names: list[str], **keys: Any) -> StudyFolder:
    """A folder of the study in which these cells have ended."""
    folder = StudyFolder(place)
    for number, cell in enumerate(cells_of(spec)):
        if cell.name in names:
            environment = {"commit": next(commit for commit, last in COMMITS.items() if number < last), "threads": 1}
            readings = READ.get(cell.name, ALL[cell.name])
            about = found(cell.name, ALL[cell.name], readings=readings, environment=environment, **keys)
            folder.begin(cell)
            add_spent(folder.home(cell), {"cpu": 8.0 + number, "proposing": 3.0, "proposed": 2})
            (folder.home(cell) / "result.json").write_text(json.dumps(about))
    return folder


def runner(tmp_path: Path, spec: StudySpec, folder: StudyFolder) -> Study:
    return Study(spec, folder, settings_from({"FIELDCRAFT_MLFLOW": "off"}, tmp_path / "home"), 1)


def stored(spec: StudySpec, folder: StudyFolder) -> Path:
    """The study.json of a folder, which is all that is left of it."""
    file = folder.path.with_suffix(".json")
    file.write_text(json.dumps(results(spec, folder, None)))
    return file


@pytest.mark.parametrize("known", [{}, {"optimum": None, "range": None}], ids=["known optimum", "unknown optimum"])
def test_results_are_those_of_a_study_that_ran_at_once(tmp_path, known):
    spec, names = study(tmp_path), list(ALL)
    assert names == [cell.name for cell in cells_of(spec)]
    at_once = results(spec, made(spec, tmp_path / "whole", names, **known), None)
    file = stored(spec, made(spec, tmp_path / "early", names[:EARLY], **known))
    folder = StudyFolder(tmp_path / "out")
    taken = runner(tmp_path, spec, folder).take(earlier_run(file, "s"), dict.fromkeys(names, "d"))
    assert taken.text == f"{EARLY} finished campaigns taken"
    assert [cell.name for cell in runner(tmp_path, spec, folder).lacking()] == names[EARLY:]
    assert Cost(folder, cells_of(spec), again=False).over == set(names[:EARLY])
    made(spec, folder.path, names[EARLY:], **known)
    gone_on = results(spec, folder, None)
    assert gone_on == at_once
    assert at_once["elsewhere"] == {name: "commit: a -> b" for name in names[5:]}
    pages = [re.sub(r"\d\d:\d\d:\d\d UTC", "", study_page(data)) for data in (gone_on, at_once)]
    same = pages[0] == pages[1]  # pytest would compare two long pages for minutes
    assert same


def test_a_better_optimum_moves_the_regrets_of_the_earlier_run(tmp_path):
    spec, names = study(tmp_path), list(ALL)
    unknown = {"optimum": None, "range": None}
    early = made(spec, tmp_path / "early", names[:EARLY], **unknown)
    before = {row["cell"]: row for row in results(spec, early, None)["cells"]}
    folder = StudyFolder(tmp_path / "out")
    runner(tmp_path, spec, folder).take(earlier_run(stored(spec, early), "s"), dict.fromkeys(names, "d"))
    made(spec, folder.path, names[EARLY:], **unknown)
    after = {row["cell"]: row for row in results(spec, folder, None)["cells"]}
    assert before["branin-sobol-1"]["regret"] == [8.75, 3.75, 3.75, 0.25], "the best of the six is 0.25"
    assert after["branin-sobol-1"]["regret"] == [8.875, 3.875, 3.875, 0.375], "that of all is 0.125"
    assert after["twice-gp-1"]["regret"] == before["twice-gp-1"]["regret"] == [6.0, 4.0, 0.0, 0.0]


def test_what_cannot_be_taken_runs_anew(tmp_path):
    spec, names = study(tmp_path), list(ALL)
    early = made(spec, tmp_path / "early", names)
    early.fail(cells_of(spec)[0], "it diverged")
    (early.home(cells_of(spec)[0]) / "result.json").unlink()
    data = json.loads(stored(spec, early).read_text())
    row = next(row for row in data["problems"][1]["rows"] if row["algorithm"] == "gp")
    row["proof"] = {"certified": 1.0}  # of twice-gp-1
    (tmp_path / "early.json").write_text(json.dumps(data))
    folder = StudyFolder(tmp_path / "out")
    begun = cells_of(spec)[4]
    folder.begin(begun)
    (folder.home(begun) / "ledger.sqlite").touch()
    earlier = earlier_run(tmp_path / "early.json", "s")
    digests = {**dict.fromkeys(names, "d"), names[1]: "another"}
    assert runner(tmp_path, spec, folder).take(earlier, digests).text == (
        "4 finished campaigns taken; not taken: 1 that the study or this version of the code states otherwise, "
        "1 with certificates, 1 that have run in this folder"
    )
    lacking = [cell.name for cell in runner(tmp_path, spec, folder).lacking()]
    assert lacking == [names[0], names[1], "twice-gp-1", begun.name]
    constrained = {**data, "problems": [{**each, "constraints": ["c"]} for each in data["problems"]]}
    (tmp_path / "c.json").write_text(json.dumps(constrained))
    other = runner(tmp_path, spec, StudyFolder(tmp_path / "other"))
    taken = other.take(earlier_run(tmp_path / "c.json", "s"), dict.fromkeys(names, "d"))
    assert taken.text == "0 finished campaigns taken; not taken: 7 with constraints"


def test_a_take_that_was_cut_off_is_taken_again_and_costs_nothing_more(tmp_path):
    spec, names = study(tmp_path), list(ALL)
    early = made(spec, tmp_path / "early", names)
    earlier, folder = earlier_run(stored(spec, early), "s"), StudyFolder(tmp_path / "out")
    cut = cells_of(spec)[2]
    folder.begin(cut)  # and its cost was written, but no result
    add_spent(folder.home(cut), {"cpu": 10.0, "proposing": 1.5, "proposed": 1})
    assert len(runner(tmp_path, spec, folder).take(earlier, dict.fromkeys(names, "d")).results) == len(names)
    assert results(spec, folder, None)["cpu_seconds"] == results(spec, early, None)["cpu_seconds"]


def test_a_campaign_that_ran_elsewhere_is_not_sought_in_this_folders_ledgers(tmp_path):
    spec, names = study(tmp_path), list(ALL)
    file = stored(spec, made(spec, tmp_path / "early", names))
    folder = StudyFolder(tmp_path / "out")
    runner(tmp_path, spec, folder).take(earlier_run(file, "s"), dict.fromkeys(names, "d"))
    showing = Showing(spec, folder, settings_from({}, tmp_path / "home"))
    assert showing.catch_up() is None and not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:-9], "is no study.json of fieldcraft compare: "),
        (lambda text: "[1]", "it holds a list"),
        (lambda text: text.replace('"problems": [{"problem"', '"tasks": [{"problem"'), "it has no 'problems'"),
        (lambda text: text.replace('"visited"', '"seen"'), "it has no 'visited'"),
        (lambda text: text.replace('"study": "s"', '"study": "t"'), r"holds the study 't', and this one is 's'\."),
        (None, "No such file"),
        (lambda text: text.replace('"elsewhere": {', '"elsewhere": null, "e": {'), "its 'elsewhere' is no dict"),
        (lambda text: text.replace('"cpu": 8.0', '"cpu": null'), "'branin-sobol-1' has the cpu 'None'"),
        (lambda text: text.replace('"cpu": 8.0', '"cpu": -8.0'), "has the cpu '-8.0'"),
        (lambda text: text.replace('"cpu_per_proposal": 1.5', '"cpu_per_proposal": "x"'), "cpu_per_proposal 'x'"),
        (lambda text: text.replace('"regret": [9.0', '"regret": [NaN'), "has the regret "),
        (lambda text: text.replace('"regret": [9.0', '"regret": [9.0, 9.0'), "has the regret "),
        (lambda text: text.replace('"visited": [9.0, ', '"visited": ['), "has the visited "),
        (lambda text: text.replace('"optimum": 0.0', '"optimum": null'), "has the optimum 'None'"),
        (lambda text: text.replace('"sense": "minimize"', '"sense": "down"'), "has the sense 'down'"),
        (lambda text: text.replace('"range": 100.0', '"range": "100"'), "has the range '100'"),
        (lambda text: text.replace('"best_design": {', '"best_design": [], "b": {'), "has the best_design "),
    ],
)
def test_a_file_that_is_no_result_of_the_study_is_refused(tmp_path, change, said):
    spec, names = study(tmp_path), list(ALL)
    file, folder = stored(spec, made(spec, tmp_path / "early", names)), StudyFolder(tmp_path / "out")
    file.write_text(change(file.read_text())) if change else file.unlink()
    with pytest.raises(InputError, match=said) as caught:
        runner(tmp_path, spec, folder).take(earlier_run(file, "s"), dict.fromkeys(names, "d"))
    assert str(caught.value).startswith(str(file)) or change is None
    assert not list(folder.path.glob("cells/*/result.json"))


def test_the_command_says_how_many_campaigns_it_takes(tmp_path, capsys):
    spec = study(tmp_path)
    digests = runner(tmp_path, spec, StudyFolder(tmp_path / "none")).digests()
    early = StudyFolder(tmp_path / "early")
    for cell in cells_of(spec):
        made(spec, early.path, [cell.name], digest=digests[cell.name])
    file = stored(spec, early)
    words = ["--out", str(tmp_path / "out"), "--home", str(tmp_path / "home")]
    assert main(["compare", str(tmp_path / "s.yaml"), "--earlier", str(file), *words]) == 0
    told = capsys.readouterr().out
    assert f"{file}: 8 finished campaigns taken\ns: nothing left" in told
    assert json.loads((tmp_path / "out" / "study.json").read_text()) == json.loads(file.read_text())
