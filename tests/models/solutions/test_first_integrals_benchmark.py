"""The tables of docs/measured.md on symmetries, transport and waves, against the stored results of their benchmark."""

import json
import math
from pathlib import Path
from statistics import geometric_mean, mean, stdev

ROOT = Path(__file__).resolve().parents[3]
FOUND = json.loads((ROOT / "benchmarks/results/first_integrals.json").read_text())
TEXT = (ROOT / "docs/measured.md").read_text()


def test_the_table_of_errors_holds_what_was_measured():
    assert FOUND["draws"] == 8 and len(FOUND["errors"]) == 13
    for name, errors in FOUND["errors"].items():
        for results in (12, 24):
            told = [errors[f"{each}, {results}"] for each in ("polynomials", "first integrals", "basis", "exact_gp")]
            assert (
                f"| {name} | {results} | " + " | ".join(f"{geometric_mean(each):.2g}" for each in told) + " |" in TEXT
            )


def test_the_table_of_regrets_holds_what_was_measured():
    assert FOUND["seeds"] == 5 and len(FOUND["regrets"]) == 4
    for name, regrets in FOUND["regrets"].items():
        told = [regrets[each] for each in ("polynomials", "basis", "exact_gp")]
        each = [f"{mean(values):.2g} ({stdev(values) / math.sqrt(5):.1g})" for values in told]
        assert f"| {name} | {' | '.join(each)} |" in TEXT
