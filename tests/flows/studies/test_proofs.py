"""Certificates and acquisition times of a study: from the ledger of real campaigns to its tables."""

import json

import pytest
from small import finish

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.studies.page.page import study_page
from fieldcraft.flows.studies.page.text import results_text
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import cells_of, read_study
from fieldcraft.flows.studies.scoring.certificates import acquired, proof_lines, proof_of
from fieldcraft.flows.studies.scoring.results import results
from fieldcraft.flows.studies.scoring.truth import measured
from fieldcraft.flows.wiring.build import wire
from fieldcraft.storage.open_ledger import open_ledger

STUDY = """\
name: s
seeds: 1
problems:
  - problem: {kind: bumpy}
    sense: minimize
    noise: {sd: 0}
    start: {n: 3}
    budget: {trials: 7}
    batch: 2
    algorithms: [proven, plain]
  - {problem: {kind: branin}, sense: minimize, start: {n: 3}, budget: {trials: 4}, algorithms: [spread]}
algorithms:
  - label: proven
    surrogate: {kind: exact_gp, noise: known, restarts: 0}
    acquisition: {kind: ucb}
    maximizer: {kind: certified}
  - label: plain
    surrogate: {kind: exact_gp, restarts: 0}
    acquisition: {kind: ucb}
    maximizer: {kind: multistart, n_samples: 64, n_starts: 2}
  - {label: spread, kind: sobol}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A study whose cells have all ended, and its folder."""
    path = tmp_path_factory.mktemp("proofs")
    (path / "s.yaml").write_text(STUDY)
    spec, folder = read_study(path / "s.yaml")[0], StudyFolder(path / "out")
    for cell in cells_of(spec):
        folder.begin(cell)
        home = folder.home(cell)
        finish(home / "campaign.json", home)
        campaign = wire(parse(cell.campaign, cell.name), settings_from(home=home))
        found = measured(campaign, open_ledger(home / "ledger.sqlite"))
        (home / "result.json").write_text(json.dumps(found))
    return spec, folder


def iteration(gap, cpu, wall=0.0, bound_of="exact"):
    return {
        "iteration": 1,
        "seconds": wall,
        "cpu_seconds": cpu,
        "gap": gap,
        "bound_of": None if gap is None else bound_of,
    }


def test_the_share_certified_counts_gaps_of_at_most_a_hundredth_among_all_iterations():
    of = proof_of([iteration(gap, 1.0) for gap in (0.0, 0.01, 0.010001, None, 3.0)])
    assert of["certified"] == 0.4 and of["largest_gap"] == 3.0 and of["iterations"] == 5 and of["bound_of"] == "exact"


def test_times_are_the_median_and_the_ninetieth_percentile_of_an_iteration():
    of = proof_of([iteration(None, float(n), 2.0 * n) for n in range(1, 12)])
    assert (of["cpu_median"], of["cpu_p90"], of["wall_p90"]) == (6.0, 10.0, 20.0)
    assert of["certified"] is of["largest_gap"] is of["bound_of"] is None
    assert proof_of([]) is None


def test_a_bound_of_an_approximation_makes_the_share_one_of_an_approximation():
    mixed = [iteration(0.001, 1.0), iteration(0.001, 1.0, bound_of="approximate")]
    of = proof_of(mixed)
    assert of["bound_of"] == "approximate" and proof_lines([{"algorithm": "a", "proof": of}])[0][2] == (
        "100% of an approximation"
    )


@pytest.mark.parametrize(
    ("met", "of", "said"), [(0, 3, "0%"), (1, 3, "33.3%"), (3, 3, "100%"), (2999, 3000, "99.9%"), (1, 3000, "0.1%")]
)
def test_only_all_is_a_hundred_per_cent_and_only_none_is_zero(met, of, said):
    proof = proof_of([iteration(0.001, 1.0)] * met + [iteration(1.0, 1.0)] * (of - met))
    assert proof_lines([{"algorithm": "a", "proof": proof}])[0][2] == said


def test_an_iteration_is_as_certain_as_its_least_certain_design(ran):
    spec, folder = ran
    cell = cells_of(spec)[0]
    ledger = open_ledger(folder.home(cell) / "ledger.sqlite")
    proposed = [trial for trial in ledger.trials(cell.name) if trial.origin.kind == "model"]
    told = acquired(ledger, cell.name)
    assert len(proposed) == 4 and len(told) == 2
    for each in told:
        gaps = [trial.origin.certificate.gap for trial in proposed if trial.iteration == each["iteration"]]
        assert len(gaps) == 2 and each["gap"] == max(gaps) and each["bound_of"] == "exact"
        assert each["cpu_seconds"] > 0 and each["seconds"] > 0


def test_text_page_and_data_show_certificates_beside_the_regret_where_a_method_has_any(ran):
    data = results(*ran, None)
    bumpy, _ = data["problems"]
    rows = {row["algorithm"]: row["proof"] for row in bumpy["rows"]}
    assert rows["proven"]["certified"] == 1.0 and rows["proven"]["iterations"] == 2
    assert rows["plain"]["certified"] is None and rows["plain"]["cpu_p90"] > 0
    assert json.loads(json.dumps(data)) == data
    text, html = results_text(data), study_page(data)
    assert "bumpy: certificates" in text and "branin: certificates" not in text
    assert "100%" in text and html.count("largest gap") == 1 and "is proven to have a score within 0.01" in html


def test_a_cell_that_ended_before_certificates_were_kept_is_still_read(ran, tmp_path):
    spec, folder = ran
    older = StudyFolder(tmp_path / "out")
    for cell in cells_of(spec):
        older.begin(cell)
        found = {key: value for key, value in folder.result(cell).items() if key != "acquired"}
        (older.home(cell) / "result.json").write_text(json.dumps(found))
    data = results(spec, older, None)
    assert [row["proof"] for each in data["problems"] for row in each["rows"]] == [None, None, None]
    assert "certificates" not in results_text(data) and "largest gap" not in study_page(data)
