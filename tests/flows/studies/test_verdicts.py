"""What stored results say of a claim, from regrets that can be counted by hand; and a study that is cut short."""

import json

import pytest

from fieldcraft.flows.cli import main
from fieldcraft.flows.studies.page.benchmarked import grown, reached, tampered
from fieldcraft.flows.studies.page.targets import TARGETS, ahead, algorithms_of, shares
from fieldcraft.flows.studies.plan.claims import Claim, Compared, Grown, Reached, Solvers, Tampered
from fieldcraft.flows.studies.plan.quick import quick
from fieldcraft.flows.studies.plan.spec import cells_of, study_of
from fieldcraft.flows.studies.scoring.verdicts import accelerations, hours_left, misses_of, verdict_of

ABOUT = Compared(study="s", methods=("own",), baselines=("slow", "quick", "absent"), problems=("p",))


def row(algorithm, regrets, curve=(), first=1):
    seeds = [*range(first, first + len(regrets))]
    return {"algorithm": algorithm, "seeds": seeds, "regrets": regrets, "curve": {"mean": list(curve)}}


def study(*rows, oracle=False):
    return {"problems": [{"problem": "p", "trials": 10, "oracle": oracle, "rows": list(rows)}]}


def test_a_claim_holds_in_part_where_the_method_beats_some():
    data = study(row("own", [1.0, 1.1, 0.9]), row("slow", [5.0, 5.1, 4.9]), row("quick", [0.1, 0.2, 0.1]))
    assert verdict_of("own", ABOUT, data).text == (
        "holds in part so far: better in 1 of 2 comparisons (3 are planned), significantly in 1; "
        "significantly worse in 1"
    )


def test_only_seeds_that_both_have_finished_count_and_one_of_them_is_no_test():
    data = study(row("own", [1.0, 9.0]), row("slow", [5.0, 6.0], first=2))
    verdict = verdict_of("own", ABOUT, data)
    assert (verdict.pairs, verdict.better, verdict.clearly, verdict.clearly_worse) == (1, 0, 0, 0)
    assert verdict.text.startswith("does not hold, by the means alone so far: better in 0 of 1")


def test_a_campaign_without_a_feasible_design_is_worse_than_any():
    verdict = verdict_of("own", ABOUT, study(row("own", [1.0, 2.0]), row("slow", [0.5, None])))
    assert verdict.text.startswith("holds, by the means alone so far: better in 1 of 1")


def test_equal_means_are_neither_better_nor_worse():
    same, slow = row("slow", [1.0, 3.0]), row("quick", [5.0, 5.0])
    nearly = verdict_of("own", ABOUT, study(row("own", [3.0, 1.0 - 1e-12]), same))
    assert nearly.text.startswith("makes no difference so far: better in 0 of 1")
    verdict = verdict_of("own", ABOUT, study(row("own", [3.0, 1.0]), same, slow))
    assert verdict.text.startswith(
        "holds, by the means alone so far: better in 1 of 2 comparisons (3 are planned), equal in 1"
    )


def test_without_results_nothing_is_claimed():
    assert verdict_of("own", ABOUT, None).text == "not measured yet"
    assert verdict_of("own", ABOUT, study(row("slow", [1.0]))).text == "not measured yet"


def test_the_acceleration_is_the_ratio_of_trials_to_random_searchs_last_regret():
    rows = (
        row("random", [2.0], [None, 5.0, 4.0, 2.0]),
        row("own", [1.0], [None, 2.0, 1.5, 1.0]),
        row("slow", [3.0], [9.0, 9.0, 9.0, 3.0]),
    )
    assert accelerations(study(*rows)) == {"own": {"p": 2.0}, "slow": {"p": None}}
    assert accelerations(study(*rows, oracle=True)) == {}
    assert accelerations(study(*rows[1:])) == {}


def test_what_was_not_run_costs_what_its_like_did_a_trial():
    cells = [
        {"problem": "p", "algorithm": "a", "state": "finished", "cpu": 10.0},
        {"problem": "p", "algorithm": "b", "state": "finished", "cpu": 30.0},
        {"problem": "p", "algorithm": "a", "state": "not reached"},  # 10 s
        {"problem": "q", "algorithm": "a", "state": "begun"},  # twice the trials of a: 20 s
        {"problem": "q", "algorithm": "c", "state": "not reached"},  # as all: 2 s a trial
    ]
    data = {"cells": cells, "problems": [{"problem": "p", "trials": 10}, {"problem": "q", "trials": 20}]}
    assert hours_left(data) == {"p": (1, pytest.approx(10 / 3600)), "q": (2, pytest.approx(60 / 3600))}
    assert hours_left({**data, "cells": cells[2:3]}) == {"p": (1, None)}


def test_missed_optima_are_counted_in_the_sizes_that_the_method_was_run_on():
    def solved(method, d, n, misses):
        return {"method": method, "d": d, "n": n, "misses": misses, "outcomes": {"cpu_s": [0.0] * 5}}

    rows = [solved("m", d, 10, d) for d in (1, 2, 3)]
    rows += [solved("other", 1, 10, 5), solved("other", 1, 99, 5), solved("other", 2, 10, 5)]
    about = Solvers(method="m", baselines=("other",), dimensions=(1, 3))
    assert (misses_of("m", about, rows), misses_of("other", about, rows)) == ((4, 10), (5, 5))


def test_the_growth_of_a_proposal_is_judged_at_the_most_trials():
    def rows(method, *seconds):
        of = zip((50, 1000), seconds, strict=True)
        return [{"method": method, "trials": n, "seconds": s, "megabytes": -s} for n, s in of]

    found = [
        *rows("m", 5.0, 6.0),
        *rows("worse", 1.0, 7.0),
        *rows("better", 9.0, 5.5),
        *rows("worst", 1.0, 9.0),
        *rows("unnamed", 0.0, 0.0),
    ]
    about = Grown(measure="seconds", methods=("m",), baselines=("worse", "better", "worst"))
    verdict, table, source = grown(about, found)
    assert verdict == "- `m` **needs less CPU time than 2 of 3 at 1,000 trials**"
    assert table.splitlines()[0] == "| trials | m | worse | better | worst |"
    assert table.splitlines()[2:] == ["| 50 | 5 s | 1 s | 9 s | 1 s |", "| 1,000 | 6 s | 7 s | 5.5 s | 9 s |"]
    assert source == "From `benchmarks/growth.py`."


def test_the_targets_reached_are_judged_in_each_number_of_variables():
    def cells(method, dimension, *each):
        return {f"{method} {dimension} {function} 0": n for function, n in enumerate(each, 1)}

    found = {
        **cells("m", 2, 51, 0),
        **cells("other", 2, 0, 34),
        **cells("m", 3, 17, 17),
        **cells("other", 3, 17, 34),
        **cells("unnamed", 2, 51, 51),
    }
    about = Reached(methods=("m",), baselines=("other",), dimensions=(2, 3))
    verdict, table, source = reached(about, found)
    assert verdict == "- `m` **reaches more targets than every baseline in 2 variables**"
    assert table.splitlines()[0] == "| variables | m | other |"
    assert table.splitlines()[2:] == ["| 2 | 0.500, 2 | 0.333, 2 |", "| 3 | 0.333, 2 | 0.500, 2 |"]
    assert "benchmarks/coco.py" in source
    assert "in no number of variables**" in next(reached(about.model_copy(update={"dimensions": (3,)}), found))


def test_changed_classifiers_are_judged_by_those_that_the_images_of_each_seed_do_not_tell():
    def rows(study, method, *shares):
        return [
            {"study": study, "method": method, "seed": seed, "images": 10, "rates": [0.0] * 7 + [share] * 3}
            for seed, share in enumerate(shares, 1)
        ]

    found = [
        *rows("s", "m", 0.9, 0.8, 1.0),
        *rows("s", "behind", 0.1, 0.2, 0.0),
        *rows("s", "ahead", 1.0, 1.0, 1.0),
        *rows("another", "m", 0.0, 0.0, 0.0),
        *rows("", "images of the set", 0.5, 0.5, 0.5),
    ]
    about = Tampered(study="s", methods=("m",), baselines=("behind", "ahead"), images=8)
    verdict, table, source = tampered(about, found)
    assert verdict.startswith("- `m` **holds in part: better in 1 of 2 comparisons, significantly in 1;")
    assert table.splitlines()[0] == "| told by | 1 image | 2 images | 5 images | 8 images | 10 images | campaigns |"
    zeros = " | ".join(["0.0 ± 0.0%"] * 3)
    assert table.splitlines()[2] == f"| m | {zeros} | 90.0 ± 5.8% | 90.0 ± 5.8% | 3 |"
    assert [line.split(" | ")[0] for line in table.splitlines()[3:]] == ["| behind", "| ahead", "| images of the set"]
    assert "benchmarks/tampering.py" in source
    (early, *_) = tampered(about.model_copy(update={"images": 1}), found)
    assert "makes no difference" in early


def test_a_claim_is_judged_in_one_way():
    with pytest.raises(ValueError, match="give exactly one of compared, solvers, grown, reached, tampered and lacks"):
        Claim(stated="it wins", where="Table 1")
    with pytest.raises(ValueError, match="give exactly one of compared, solvers, grown, reached, tampered and lacks"):
        Claim(stated="it wins", where="Table 1", compared=ABOUT, lacks="time")


def test_a_quick_study_has_every_campaign_once_with_a_few_trials():
    problem = {"problem": {"kind": "branin"}, "sense": "minimize", "start": {"n": 9}, "budget": {"trials": 50}}
    batches = {**problem, "label": "four", "batch": 4, "seeds": 3, "budget": {"trials": 10}}
    whole = study_of(
        {
            "name": "s",
            "seeds": 5,
            "limit": {"core_hours": 1},
            "problems": [problem, batches],
            "algorithms": [{"kind": "random"}, {"kind": "sobol"}],
        }
    )
    cut = quick(whole)
    assert (cut.name, cut.limit, len(cells_of(cut))) == ("s-quick", None, 4)
    assert [
        (c["algorithm"]["start"]["n"], c["budget"]["trials"]) for c in (cell.campaign for cell in cells_of(cut))
    ] == [
        (4, 6),
        (4, 6),
        (4, 10),
        (4, 10),
    ]


def test_the_command_cuts_a_study_and_keeps_it_out_of_the_whole_ones_folder(tmp_path, capsys):
    problem = {"problem": {"kind": "branin"}, "sense": "minimize", "start": {"n": 2}, "budget": {"trials": 4}}
    file, folder = tmp_path / "s.yaml", tmp_path / "out"
    file.write_text(json.dumps({"name": "s", "problems": [problem], "algorithms": [{"kind": "random"}]}))
    folder.mkdir()
    (folder / "study").write_text(json.dumps({"study": "s"}))
    assert main(["compare", str(file), "--quick", "--out", str(folder), "--home", str(tmp_path)]) == 2
    assert "holds the study 's', and this one is 's-quick'" in capsys.readouterr().err


def test_one_algorithm_is_ahead_of_another_by_their_differences_on_the_same_functions_and_seeds():
    cells = {"a 2 1 0": 9, "a 2 1 1": 5, "a 2 2 0": 4, "b 2 1 0": 3, "b 2 1 1": 5, "b 2 3 0": 50, "b 3 2 0": 50}
    mean, error = ahead(cells, "a", "b", 2)
    assert mean == pytest.approx(3 / TARGETS) and error == pytest.approx(3 / TARGETS), "6 and 0 are 3 +- sqrt(18 / 2)"
    assert ahead(cells, "b", "a", 2) == (pytest.approx(-mean), pytest.approx(error))
    assert ahead(cells, "a", "b", 3) is None


def test_the_share_of_targets_is_a_mean_over_a_groups_functions_and_seeds():
    cells = {"a 2 1 0": 51, "a 2 1 1": 0, "a 2 6 0": 17, "a 3 1 0": 51, "b 2 1 0": 51}
    found, campaigns = shares(cells, "a", 2)
    assert found == [0.5, pytest.approx(1 / 3), None, None, None, pytest.approx(4 / 9)] and campaigns == 3
    assert algorithms_of(cells) == {2: ["a", "b"], 3: ["a"]}
