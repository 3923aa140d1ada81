"""How an algorithm stands against rivals, from regrets that can be counted by hand."""

from statistics import mean, stdev

import pytest

from fieldcraft.flows.studies.scoring.standing import behind, standings


def row(algorithm, *regrets):
    error = stdev(regrets) / len(regrets) ** 0.5 if len(regrets) > 1 else None
    seeds = [*range(1, len(regrets) + 1)]
    return {"algorithm": algorithm, "seeds": seeds, "regrets": regrets, "mean": mean(regrets), "error": error}


def study(oracle=False, trials=20, **problems):
    same = {"objective": "value", "sense": "minimize", "trials": trials, "start": 5, "noise_sd": 0.1, "optimum": 0.0}
    return {
        "problems": [
            {"problem": name, "kind": name, **same, "oracle": oracle, "rows": rows} for name, rows in problems.items()
        ]
    }


def test_a_sign_test_counts_problems_of_all_studies_and_is_corrected_for_the_number_of_rivals():
    one = study(
        p=[row("own", 1.0), row("slow", 2.0), row("quick", 0.5)],
        q=[row("own", 1.0), row("slow", 1.0), row("quick", 0.5)],
        r=[],
    )
    other = study(
        trials=30,
        p=[row("own", 3.0), row("slow", 4.0), row("quick", 5.0)],
        s=[row("own", 3.0), row("slow", 4.0), row("quick", 1.0), row("unasked", 0.0)],
        t=[row("slow", 0.0), row("quick", 0.0)],
    )
    found = standings("own", ("quick", "slow", "absent"), {"one": one, "other": other})
    assert [(each.rival, each.better, each.equal, each.worse) for each in found] == [
        ("quick", 1, 0, 3),
        ("slow", 3, 1, 0),
    ]
    # P(at least 3 of 3) = 1/8, twice that as the lesser of two; P(at least 1 of 4) = 15/16
    assert [each.q for each in found] == pytest.approx([15 / 16, 1 / 4])


def test_a_problem_whose_equation_was_computed_from_the_objective_does_not_count():
    told = {"s": study(oracle=True, p=[row("own", 1.0), row("slow", 0.5)])}
    assert standings("own", ("slow",), told) == []
    assert behind("own", ("slow",), told) == []


def test_a_problem_that_two_studies_ran_alike_counts_once_where_the_algorithm_has_more_seeds():
    few = study(p=[row("own", 1.0), row("slow", 0.5)], q=[row("own", 1.0), row("slow", 2.0)])
    more = study(p=[row("own", 1.0, 3.0), row("slow", 5.0, 6.0)], q=[row("slow", 0.0, 0.0, 0.0)])
    for told in ({"few": few, "more": more}, {"more": more, "few": few}):
        (found,) = standings("own", ("slow",), told)
        assert (found.better, found.equal, found.worse) == (2, 0, 0)
        assert behind("own", ("slow",), told) == []


def test_of_two_studies_with_as_many_seeds_the_one_with_more_rivals_is_told_of():
    lone = study(p=[row("own", 1.0), row("slow", 0.5), row("unasked", 0.0), row("other", 0.0)])
    full = study(p=[row("own", 1.0), row("slow", 2.0), row("quick", 3.0)])
    for told in ({"lone": lone, "full": full}, {"full": full, "lone": lone}):
        found = standings("own", ("slow", "quick"), told)
        assert [(each.rival, each.better, each.worse) for each in found] == [("quick", 1, 0), ("slow", 1, 0)]


def test_without_a_difference_there_is_no_test():
    (found,) = standings("own", ("slow",), {"s": study(p=[row("own", 1.0), row("slow", 1.0)])})
    assert (found.equal, found.q) == (1, None)


def test_behind_is_more_than_two_errors_of_the_difference_from_the_best_rival():
    rows = [row("slow", 9.0, 9.0), row("quick", 1.0, 2.0)]  # 1.5 with an error of 0.5
    near, far = (study(p=[row("own", mid - 0.5, mid + 0.5), *rows]) for mid in (2.9, 2.95))  # sqrt(2) / 2 in all
    assert behind("own", ("slow", "quick"), {"s": near}) == []
    (found,) = behind("own", ("slow", "quick"), {"s": far})
    assert (found.study, found.problem, found.best, found.last) == ("s", "p", "quick", False)
    assert (found.own, found.other, found.error) == pytest.approx((2.95, 1.5, 0.5**0.5))


def test_with_one_seed_any_difference_counts_and_the_largest_regret_is_said_to_be():
    (found,) = behind("own", ("slow", "quick"), {"s": study(p=[row("own", 5.0), row("slow", 5.0), row("quick", 3.0)])})
    assert (found.best, found.error, found.last) == ("quick", None, True)
    assert behind("own", ("slow",), {"s": study(p=[row("own", 5.0), row("slow", 5.5)])}) == []


def test_behind_is_told_over_the_seeds_that_both_have():
    rows = [row("own", 5.0, 1.0), row("quick", 5.0)]
    assert behind("own", ("quick",), {"s": study(p=rows)}) == []
    (found,) = behind("own", ("quick",), {"s": study(p=[row("own", 5.0, 1.0), row("quick", 4.0)])})
    assert (found.own, found.other, found.error) == (5.0, 4.0, None)
    assert behind("own", ("quick",), {"s": study(p=[row("own", 5.0), row("quick", 4.0) | {"seeds": [2]}])}) == []


def test_a_difference_by_rounding_is_not_behind():
    assert behind("own", ("quick",), {"s": study(p=[row("own", 0.1 + 0.2), row("quick", 0.3)])}) == []


def test_without_a_feasible_design_a_mean_is_infinite_and_behind():
    lost = row("own", 1.0, 1.0) | {"regrets": [None, 1.0], "mean": None, "error": None}
    (found,) = behind("own", ("quick",), {"s": study(p=[lost, row("quick", 2.0, 2.0)])})
    assert (found.own, found.other, found.error, found.last) == (float("inf"), 2.0, None, True)
    both = row("quick", 1.0, 1.0) | {"regrets": [None, 1.0], "mean": None, "error": None}
    assert behind("own", ("quick",), {"s": study(p=[lost, both])}) == []


def test_of_two_studies_the_one_without_the_rival_tells_nothing_of_it_however_many_seeds_it_has():
    rivals = ("slow", "quick")
    both = study(p=[row("own", 3.0), row("slow", 1.0), row("quick", 9.0)])
    lone = study(p=[row("own", 3.0, 3.0), row("slow", 7.0, 7.0)])
    for told in ({"both": both, "lone": lone}, {"lone": lone, "both": both}):
        found = standings("own", rivals, told)
        assert [(each.rival, each.better, each.worse) for each in found] == [("quick", 1, 0), ("slow", 1, 0)]
        assert [(each.study, each.best) for each in behind("own", rivals, told)] == [("both", "slow")]
