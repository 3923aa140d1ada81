"""Studies of problems with constraints: regret and violation of their campaigns, and how algorithms are compared."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.studies.page.mlflow_runs import _curves
from fieldcraft.flows.studies.page.page import study_page
from fieldcraft.flows.studies.page.text import results_text
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import cells_of, read_study
from fieldcraft.flows.studies.scoring.results import results
from fieldcraft.flows.studies.scoring.violation import FLOOR, Spreads, constrained_row, spreads_of, with_violations
from fieldcraft.flows.wiring.physics.exact_outputs import exact_outputs, spreads
from fieldcraft.physics.problems.constrained_branin import ConstrainedBranin
from fieldcraft.physics.problems.digits import Digits
from fieldcraft.physics.problems.speed_reducer import SpeedReducer

STUDY = """\
name: s
seeds: 2
problems:
  - {problem: {kind: constrained_branin}, sense: minimize, start: {n: 2}, budget: {trials: 4}}
algorithms: [{kind: sobol}, {kind: random}]
"""

Outputs = list[float] | None


def found(outputs: list[Outputs], **keys: Any) -> dict[str, Any]:
    """A finished cell whose trials have these exact objectives and constraints c1, c2, ..., and exact results."""
    trials = [
        {
            "trial": str(n),
            "origin": "initial",
            "design": {"x": n},
            "reading": each[0] if (feasible := each is not None and max(each[1:]) <= 0) else None,
            "true": each[0] if feasible else None,
            "outputs": each,
        }
        for n, each in enumerate(outputs)
    ]
    names = [f"c{k}" for k in range(1, max(len(each or ()) for each in outputs))]
    about = {"objective": "value", "unit": "K", "maximize": False, "noise_sd": 0.0, "optimum": 0.0, "range": None}
    more = {"physics": False, "oracle": False, "digest": "d", "sentence": "sobol", "finished": "budget", "cell": "c"}
    return {
        "trials": trials,
        "constraints": names,
        "spreads": [10.0, 2.0, 4.0][: 1 + len(names)],
        **about,
        **more,
        **keys,
    }


SIX: list[Outputs] = [[5.0, 2.0, -1.0], None, [-3.0, -1.0, 4.0], [4.0, -1.0, -1.0], [2.0, 0.0, 0.0], [9.0, 1.0, 8.0]]
SPREADS = Spreads(10.0, (2.0, 4.0))


def test_regret_and_violation_are_each_divided_by_their_spread_and_the_least_sum_so_far_counts():
    cell = with_violations(found(SIX), 0.0, SPREADS)
    least = [1.5, 1.5, 1.0, 0.4, 0.2, 0.2]  # 5/10 + 2/2; no result; 0 + 4/4, its f below f* being no merit; ...
    assert cell["paths"]["regret_and_violation"] == pytest.approx([math.log10(value) for value in least])
    assert cell["metrics"]["regret_and_violation"] == cell["paths"]["regret_and_violation"][-1]
    assert cell["unscaled"] == pytest.approx(math.log10(2.0)), "5 + 2, 0 + 4, 4, 2, 9 + 1 + 8"


def test_sums_are_of_positive_parts_and_the_best_feasible_regret_is_none_until_one_is_feasible():
    cell = with_violations(found(SIX), 0.0, SPREADS)
    assert cell["paths"]["cumulative_regret"] == [5.0, 5.0, 5.0, 9.0, 11.0, 20.0]
    assert cell["paths"]["cumulative_violation"] == [1.0, 1.0, 2.0, 2.0, 2.0, 4.5]
    assert cell["violations"] == {"c1": 3.0, "c2": 12.0}
    assert cell["paths"]["feasible_regret"] == [None, None, None, 4.0, 2.0, 2.0], "c = 0 is feasible"
    assert (cell["feasible_trials"], cell["first_feasible"]) == (2, 4)


def test_a_maximised_objective_falls_short_from_below():
    outputs: list[Outputs] = [[7.0, -1.0, -1.0], [12.0, 1.0, -1.0], [9.0, -1.0, -1.0]]
    cell = with_violations(found(outputs, maximize=True), 10.0, SPREADS)
    assert cell["paths"]["feasible_regret"] == [3.0, 3.0, 1.0]
    assert cell["paths"]["cumulative_regret"] == [3.0, 3.0, 4.0]
    assert cell["paths"]["regret_and_violation"] == pytest.approx([math.log10(value) for value in (0.3, 0.3, 0.1)])


def test_before_the_first_result_there_is_no_metric_and_the_optimum_itself_has_a_logarithm():
    cell = with_violations(found([None, [0.0, -1.0]]), 0.0, Spreads(1.0, (1.0,)))
    assert {name: path[0] for name, path in cell["paths"].items()} == dict.fromkeys(cell["paths"])
    assert cell["metrics"]["regret_and_violation"] == cell["unscaled"] == math.log10(FLOOR)
    never = with_violations(found([[1.0, 2.0]]), 0.0, Spreads(1.0, (1.0,)))
    assert (never["first_feasible"], never["metrics"]["feasible_regret"]) == (None, None)


def test_spreads_over_the_space_are_those_of_the_uniform_distribution():
    assert spreads(ConstrainedBranin()) == [51.2, pytest.approx(7.5**2 * math.sqrt(8 / 45), rel=0.005)]
    teeth, module = ((28 - 17 + 1) ** 2 - 1) / 12, 0.1**2 / 12  # variances of whole x3 and of x2
    product = (0.75**2 + module) * (22.5**2 + teeth) - (0.75 * 22.5) ** 2
    reducer = spreads(SpeedReducer())
    assert reducer is not None and reducer == spreads(SpeedReducer()), "the sample is always the same"
    assert reducer[0] == SpeedReducer().sd and reducer[7] == pytest.approx(math.sqrt(product), rel=0.005)


def test_outputs_without_noise_are_known_where_a_design_is_a_point_of_the_formula():
    place = {"x1": np.pi, "x2": 2.275}
    outputs = exact_outputs(ConstrainedBranin(), [place, {"x1": 10.0, "x2": 7.5}])
    assert outputs is not None and outputs[0, 0] == pytest.approx(0.397887357)
    assert outputs[:, 1] == pytest.approx([(np.pi - 2.5) ** 2 + 5.225**2 - 50, 7.5**2 - 50])
    assert exact_outputs(_Unknown(), [place]) is None and spreads(_Unknown()) is None
    levels = Digits()
    assert exact_outputs(levels, levels.space.decode(levels.space.sample(1, np.random.default_rng(0)))) is None


class _Unknown(ConstrainedBranin):
    """Constrained Branin, of which nothing is known but what simulations say."""

    def exact(self, points):
        return None

    def optimum(self, sense):
        return None


def test_spreads_that_a_problem_does_not_know_are_those_of_the_designs_of_the_study():
    cells = [found([[1.0, 5.0], None], spreads=None), found([[3.0, 5.0]], spreads=None)]
    assert spreads_of(cells) == Spreads(1.0, (1.0,)), "sd of 1 and 3; a constraint that never varies keeps its unit"
    assert spreads_of([found(SIX)]) == SPREADS
    assert spreads_of([found([None], spreads=None)]) is None


def test_a_row_has_means_over_campaigns_and_none_where_a_campaign_has_none():
    cells = [with_violations(found(outputs), 0.0, SPREADS) for outputs in (SIX, [[7.0, 2.0, -1.0]] * 6)]
    row = constrained_row(cells)
    assert (row["feasible"], row["feasible_trials"], row["first_feasible"]) == (1, 1.0, None)
    assert row["metrics"]["feasible_regret"]["mean"] is None
    assert row["metrics"]["cumulative_regret"]["mean"] == (20.0 + 42.0) / 2
    assert row["metrics"]["cumulative_regret"]["error"] == pytest.approx(11.0), "half the difference of two"
    assert row["metrics"]["cumulative_violation"]["curve"]["mean"] == [1.0, 1.5, 2.5, 3.0, 3.5, (4.5 + 6) / 2]
    assert row["violations"] == {"c1": (3.0 + 12.0) / 2, "c2": 6.0}


def filled(place: Path, text: str, outputs: dict[str, list[Outputs]], **keys: Any) -> dict[str, Any]:
    """What a study found whose cells have these exact outputs."""
    (place / "s.yaml").write_text(text)
    spec, folder = read_study(place / "s.yaml")[0], StudyFolder(place / "out")
    for cell in cells_of(spec):
        folder.begin(cell)
        (folder.home(cell) / "result.json").write_text(json.dumps(found(outputs[cell.name], cell=cell.name, **keys)))
    return results(spec, folder, None)


TWO: dict[str, list[Outputs]] = {
    "constrained_branin-sobol-1": [[8.0, 2.0], [5.0, -1.0]],
    "constrained_branin-sobol-2": [[8.0, 2.0], [3.0, -1.0]],
    "constrained_branin-random-1": [[1.0, 4.0], [-2.0, 4.0]],
    "constrained_branin-random-2": [[1.0, 4.0], [9.0, -1.0]],
}


def strictly(data: dict[str, Any]) -> dict[str, Any]:
    """The data as whoever reads the file has them: JSON has no infinite number."""
    return json.loads(json.dumps(data, allow_nan=False))


def test_algorithms_are_ranked_and_tested_by_the_least_regret_and_violation(tmp_path):
    data = strictly(filled(tmp_path, STUDY, TWO))
    problem = data["problems"][0]
    first, last = [[math.log10(value) for value in pair] for pair in ((0.5, 0.3), (2.0, 0.9))]
    assert [(row["algorithm"], row["rank"]) for row in problem["rows"]] == [("sobol", 1.0), ("random", 2.0)]
    assert [row["mean"] for row in problem["rows"]] == pytest.approx([np.mean(first), np.mean(last)])
    welch = stats.ttest_ind(first, last, equal_var=False, alternative="less").pvalue
    assert problem["rows"][1]["q"] == pytest.approx(welch) and data["tests"] == 1
    assert (problem["metric"], problem["spreads"]) == ("regret_and_violation", [10.0, 2.0])
    assert data["ranks"]["sobol"]["mean"] == 1.0
    text, html = results_text(data), study_page(data)
    assert "1 constraint, compared by log10 regret + violation" in text and "constrained_branin: constraints" in text
    assert html.count("<img") == 4, "a chart of each metric"
    assert "sum of violations by trials" in html and "4,096 designs" in html


def test_an_algorithm_without_a_feasible_design_in_a_seed_is_last_and_not_tested_by_the_best_feasible_one(tmp_path):
    data = strictly(filled(tmp_path, STUDY.replace("seeds: 2", "seeds: 2\nmetric: feasible_regret"), TWO))
    sobol, random = data["problems"][0]["rows"]
    assert (sobol["mean"], sobol["rank"], random["mean"], random["rank"]) == (4.0, 1.0, None, 2.0)
    assert random["p"] is random["q"] is None and random["regrets"] == [None, 9.0]
    assert random["constrained"]["feasible"] == 1 and data["ranks"]["random"]["last"] == 1
    lines = [line.split() for line in results_text(data).splitlines() if line.startswith("  random")]
    assert ["random", "2", "2", "none"] in [line[:4] for line in lines] and "1 of 2" in study_page(data)


@pytest.mark.parametrize(
    ("metric", "means"), [("cumulative_regret", [12.0, 5.5]), ("cumulative_violation", [1.0, 3.0])]
)
def test_a_study_may_be_compared_by_a_sum(tmp_path, metric, means):
    data = filled(tmp_path, STUDY.replace("seeds: 2", f"seeds: 2\nmetric: {metric}"), TWO)
    assert {row["algorithm"]: row["mean"] for row in data["problems"][0]["rows"]} == dict(
        zip(("sobol", "random"), means, strict=True)
    )


def test_a_campaign_in_which_nothing_is_feasible_has_finished_and_one_without_a_result_has_failed(tmp_path):
    nowhere: dict[str, list[Outputs]] = {name: [[1.0, 4.0]] for name in TWO} | {"constrained_branin-sobol-2": [None]}
    states = {cell["cell"]: cell["state"] for cell in filled(tmp_path, STUDY, nowhere)["cells"]}
    assert [name for name, state in states.items() if state == "failed"] == ["constrained_branin-sobol-2"]


def test_without_a_known_optimum_or_a_feasible_design_there_is_no_table(tmp_path):
    data = filled(tmp_path, STUDY, {name: [[1.0, 4.0]] for name in TWO}, optimum=None)
    assert data["problems"][0]["rows"] == [] and data["ranks"] == {}
    assert "4 of 4 cells finished" in results_text(data) and "<h2>constrained_branin" not in study_page(data)
    said = "constrained_branin: 4 campaigns finished without a feasible design, and no optimum is known"
    assert said in results_text(data) and said in study_page(data)


def test_an_unknown_metric_is_refused_in_one_line(tmp_path):
    (tmp_path / "s.yaml").write_text(STUDY.replace("seeds: 2", "metric: regrets"))
    with pytest.raises(InputError, match=r"metric: Input should be 'regret_and_violation', .* \(given: 'regrets'\)$"):
        read_study(tmp_path / "s.yaml")


def test_the_metrics_of_a_cell_are_shown_where_they_need_no_other_cell():
    shown = _curves(found(SIX))
    assert shown["feasible_regret"] == [None, None, None, 4.0, 2.0, 2.0] and "cumulative_violation" in shown
    assert shown["regret"] == [None, None, None, 4.0, 2.0, 2.0]
    assert "feasible_regret" not in _curves(found(SIX, spreads=None))
    assert list(_curves(found(SIX, optimum=None))) == ["reading"]
