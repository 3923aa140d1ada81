"""The tables of docs/measured.md on equations in many variables, against the stored results of their benchmark."""

import json
import math
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parents[3]
NOW, BEFORE = (
    json.loads((ROOT / f"benchmarks/results/{name}.json").read_text()) for name in ("equations", "equations_before")
)
TEXT = (ROOT / "docs/measured.md").read_text()
NAMES = {
    "styblinski_tang": "Styblinski-Tang",
    "rastrigin": "Rastrigin",
    "michalewicz": "Michalewicz",
    "cosine_mixture": "Cosine Mixture",
}


def test_the_table_of_true_equations_holds_what_was_measured():
    assert NOW["draws"] == BEFORE["draws"] == 5
    for now, before in zip(NOW["solutions"], BEFORE["solutions"], strict=True):
        assert now["solution"] == before["solution"]
        for d, n in ((5, 10), (5, 20), (10, 20), (10, 40)):
            kernel = f"error of kernel, {d}, {n}"
            told = [mean(each) for each in (before[kernel], now[kernel], now[f"error of exact_gp, {d}, {n}"])]
            assert f"| {now['solution']} | {d} | {n} | " + " | ".join(f"{each:.2f}" for each in told) + " |" in TEXT


def test_the_table_of_right_hand_sides_holds_what_was_measured():
    for found in NOW["sums"]:
        for d, n in ((5, 10), (5, 20), (10, 20), (10, 40)):
            told = [mean(found[f"error of {name}, {d}, {n}"]) for name in ("plain", "kernel", "exact_gp")]
            assert f"| {found['solution']} | {d} | {n} | " + " | ".join(f"{each:.2f}" for each in told) + " |" in TEXT


def test_the_table_of_oracles_holds_what_was_measured():
    for found in NOW["functions"]:
        row = [NAMES[found["function"]]]
        for name in ("kernel", "exact_gp"):
            row.append(", ".join(f"{mean(found[f'error of {name}, {d}']):.2f}" for d in (4, 10, 20)))
        for name in ("kernel", "exact_gp"):
            regrets = found[f"regret of {name}"]
            row.append(f"{mean(regrets):.3g} ({stdev(regrets) / math.sqrt(len(regrets)):.2g})")
        assert f"| {' | '.join(row)} |" in TEXT
