"""The table of docs/methods.md on gradients, against the stored results of its benchmark."""

import json
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "benchmarks/results/gradient.json").read_text())["cases"]


def figures(campaigns):
    runs = ", ".join(str(each["runs"] or "-") for each in campaigns)
    return runs, f"{statistics.median(each['best'] for each in campaigns):.3g}"


def test_the_table_of_gradients_holds_what_was_measured():
    text = (ROOT / "docs/methods.md").read_text()
    by_method = {(row["case"], row["method"]): row for row in CASES}
    assert len(by_method) == 6 and all(len(row["campaigns"]) == 5 for row in CASES)
    for case in ("cantilever", "rosenbrock", "levy"):
        values, gradients = by_method[case, "values"], by_method[case, "gradients"]
        (runs, best), (fewer, better) = figures(values["campaigns"]), figures(gradients["campaigns"])
        assert f"| {case} | {values['target']:.3g} | {runs} | {fewer} | {best} | {better} |" in text
