"""The benchmark of structured spaces: what it states of its problems holds for them."""

import importlib
import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


def test_results_are_equal_wherever_a_space_says_that_designs_are(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    cases = importlib.import_module("structured_spaces").CASES
    assert {"wells", "twin-chips", "antennas", "styblinski", "methods", "torsion-10-340"} <= set(cases)
    for name, make in cases.items():
        case = make()
        designs = case.plain.decode(case.plain.sample(12, np.random.default_rng(3)))
        same = case.space.decode(case.space.folds.canonical(case.space.encode(designs)))
        if case.space.exchangeable:
            assert sum(one != other for one, other in zip(designs, same, strict=True)) >= 3
        read = [case.read(design) for design in designs]
        assert [case.read(design) for design in same] == pytest.approx(read, rel=1e-9), name
        assert min(read) >= case.least


def test_what_is_told_of_exchangeable_parts_is_what_was_measured():
    text = " ".join((ROOT / "docs/spaces.md").read_text().split())
    runs = json.loads((ROOT / "benchmarks/results/exchangeable.json").read_text())
    for problem, forms in runs.items():
        (row,) = [
            line for line in (ROOT / "docs/spaces.md").read_text().splitlines() if line.startswith(f"| {problem}")
        ]
        said = [float(cell) for cell in row.split("|")[3:6]]
        assert said == [float(f"{fmean(forms[form]):.2g}") for form in ("plain", "stated", "sorted")]

    def worse(form):
        pairs = [pair for forms in runs.values() for pair in zip(forms[form], forms["plain"], strict=True)]
        return f"{sum(one > other for one, other in pairs)} of {'the ' * (form == 'stated')}{len(pairs)}"

    assert f"worse in {worse('stated')} pairs" in text and f"plain ones in {worse('sorted')}," in text
