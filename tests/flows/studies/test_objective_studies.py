"""Studies of several objectives: each campaign's hypervolume by trial takes the place of a result."""

import json

import numpy as np
import pytest

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.studies.page.text import results_text
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import cells_of, read_study
from fieldcraft.flows.studies.running import Study
from fieldcraft.flows.studies.scoring.results import results
from fieldcraft.flows.studies.scoring.truth import measured
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.open_ledger import open_ledger
from fieldcraft.storage.pareto import hypervolume, non_dominated

STUDY = """\
name: s
seeds: 1
problems: [{problem: {kind: c2_dtlz2}, start: {n: 8}, budget: {trials: 8}}]
algorithms: [{kind: sobol}, {kind: random}]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The study with both campaigns finished, their trials by algorithm, and its results."""
    place = tmp_path_factory.mktemp("study")
    (place / "s.yaml").write_text(STUDY)
    spec, folder, trials = read_study(place / "s.yaml")[0], StudyFolder(place / "out"), {}
    for cell in cells_of(spec):
        folder.begin(cell)
        campaign = wire(parse(cell.campaign), settings_from({}, folder.home(cell)))
        ledger = open_ledger(campaign.settings.ledger, create=True)
        created(ledger, campaign, place / "s.yaml")
        with held(ledger, cell.name) as lease:
            while not make_pass(Ref(str(folder.home(cell)), cell.name, lease.model_dump())).decision.finished:
                pass
        (folder.home(cell) / "result.json").write_text(json.dumps(measured(campaign, ledger)))
        trials[cell.algorithm.name] = ledger.trials(cell.name)
    return trials, results(spec, folder, None)


def test_the_regret_is_what_is_missing_of_the_largest_hypervolume(ran):
    trials, data = ran
    (problem,) = data["problems"]
    assert (problem["objective"], problem["optimum"], problem["optimum_known"]) == (
        "hypervolume",
        0.3996406303723544,
        True,
    )
    for cell in data["cells"]:
        for n, regret in enumerate(cell["regret"], start=1):
            read = [trial.outputs for trial in trials[cell["algorithm"]][:n]]
            points = [(each["f1"], each["f2"]) for each in read if each["c"] <= 0]
            front = [points[i] for i in non_dominated(points)]
            assert regret == pytest.approx(0.3996406303723544 - hypervolume(front, (1.1, 1.1)))
        assert np.diff(cell["regret"]).max() <= 0
    better, worse = sorted(problem["rows"], key=lambda row: row["mean"])
    assert data["ranks"][better["algorithm"]]["mean"] < data["ranks"][worse["algorithm"]]["mean"]
    assert "maximize hypervolume, 8 trials of which 8 start" in results_text(data)


def test_a_problem_without_references_is_refused_before_any_campaign(tmp_path):
    named = "[{name: a, objective: minimize, reference: 1.0}, {name: b, objective: minimize}]"
    problem = f"{{kind: declared, variables: [{{name: x, low: 0, high: 1}}], results: {named}}}"
    (tmp_path / "s.yaml").write_text(STUDY.replace("{kind: c2_dtlz2}", problem))
    spec = read_study(tmp_path / "s.yaml")[0]
    with pytest.raises(InputError, match="b states no reference, and a study compares hypervolumes within one"):
        Study(spec, StudyFolder(tmp_path / "out"), settings_from({}, tmp_path / "home"), 1).digests()
