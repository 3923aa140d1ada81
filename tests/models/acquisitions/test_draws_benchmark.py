"""The tables of docs/measured.md on draws in many variables, against the stored results of their benchmark."""

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

ROOT = Path(__file__).resolve().parents[3]
KEPT = json.loads((ROOT / "benchmarks/results/draws.json").read_text())
TEXT = (ROOT / "docs/measured.md").read_text()
REGRETS = ("gp_ts", "sto_bnts_linear")
BESIDE = ("gp_ei",)
FURTHER = ("sto_bnts", "neural_ts", "deep_ensemble")
FEW = ("branin", "dropwave")
PROBLEMS = tuple(each for each in dict.fromkeys(key.split(" | ")[0] for key in KEPT) if each not in FEW)
WHERE = ("gp_ts, everywhere", "gp_ts, about_best", "gp_ucb", "gp_ei")


def seeds(problem, method):
    """The campaigns of five seeds."""
    return [KEPT[f"{problem} | {method} | {seed}"] for seed in range(5)]


def told(problem, method, name="end"):
    values = [each[name] for each in seeds(problem, method)]
    return f"{mean(values):.3g} ({stdev(values) / 5**0.5:.2g})"


def pair(problem, name):
    return " -> ".join(told(problem, f"{name}, {search}") for search in ("everywhere", "about_best"))


def regrets(problem):
    """A row of the regrets."""
    cells = [told(problem, "gp_ei", "start"), *(pair(problem, name) for name in REGRETS)]
    return f"| {problem} | {' | '.join([*cells, *(told(problem, method) for method in BESIDE)])} |"


def further(problem):
    """A row of the regrets of other surrogates' draws."""
    return f"| {problem} | {' | '.join(pair(problem, name) for name in FURTHER)} |"


def places(problem, method):
    """A row of where the proposals lie."""
    at_bounds, distance, expected, sd, score = (
        mean(each[name] for each in seeds(problem, method)) for name in ("at_bounds", "distance", "mean", "sd", "score")
    )
    deviation = f"{(expected + score) / sd:.1f}" if method.startswith("gp_ts") else "-"
    return f"| {problem} | {method} | {at_bounds:.0%} | {distance:.2f} | {expected:.2f} | {sd:.2f} | {deviation} |"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_table_of_regrets_holds_what_was_measured(problem):
    assert regrets(problem) in TEXT


def test_the_tables_of_places_and_of_other_surrogates_hold_what_was_measured():
    for problem in ("levy-12", "rastrigin-20"):
        for method in WHERE:
            assert places(problem, method) in TEXT
    assert further("rastrigin-20") in TEXT


def test_what_is_said_of_two_variables_was_measured():
    branin, dropwave = (
        {
            search: mean(each["end"] for each in seeds(problem, f"gp_ts, {search}"))
            for search in ("everywhere", "about_best")
        }
        for problem in FEW
    )
    text = " ".join(TEXT.split())
    assert f"on Branin ({branin['about_best']:.3f} against {branin['everywhere']:.3f}, five seeds)" in text
    assert f"on DropWave ({dropwave['about_best']:.2f} against {dropwave['everywhere']:.2f})" in text


def test_about_the_best_design_no_problem_ends_worse_by_two_standard_errors_and_most_end_better():
    better = 0
    for problem in PROBLEMS:
        for name in REGRETS:
            ends = [[each["end"] for each in seeds(problem, f"{name}, {s}")] for s in ("everywhere", "about_best")]
            gains = [before - after for before, after in zip(*ends, strict=True)]
            error = stdev(gains) / 5**0.5
            assert mean(gains) > -2 * error, (problem, name)
            better += mean(gains) > 2 * error
    assert better > len(PROBLEMS)
