"""The tables of docs/measured.md on gradients, against the stored results of their benchmark."""

import json
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "benchmarks/results/gradient.json").read_text())["cases"]
BY_METHOD = {(row["case"], row["method"]): row for row in CASES}
TEXT = (ROOT / "docs/measured.md").read_text()


def told(row):
    return ", ".join(str(each["runs"] or "-") for each in row["campaigns"])


def middle(rows, name, digits=3):
    return f"{statistics.median(each[name] for each in rows):.{digits}g}"


def test_the_table_of_gradients_holds_what_was_measured():
    assert all(len(row["campaigns"]) == 5 for row in CASES)
    for case in ("cantilever", "rosenbrock", "levy"):
        values, gradients = BY_METHOD[case, "values"], BY_METHOD[case, "gradients"]
        best, better = (middle(each["campaigns"], "best") for each in (values, gradients))
        assert f"| {case} | {values['target']:.3g} | {told(values)} | {told(gradients)} | {best} | {better} |" in TEXT


def test_the_table_of_gradients_beside_an_emulator_holds_what_was_measured():
    cases = [case for case, method in BY_METHOD if method == "emulated values"]
    assert "cantilever" in cases and "chips" in cases
    for case in cases:
        pair = [BY_METHOD[case, f"emulated {which}"] for which in ("values", "gradients")]
        assert all(len(row["foreseen"]) == 5 for row in pair)
        shown = [told(row) for row in pair]
        shown += [middle(row["foreseen"], "error") for row in pair] + [middle(row["foreseen"], "held") for row in pair]
        assert f"| {case} | {' | '.join(shown)} |" in TEXT
