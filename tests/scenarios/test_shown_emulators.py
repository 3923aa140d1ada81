"""The tables of docs/fields.md and docs/measured-fields.md on emulators are those of the stored benchmark."""

import math
import re
from collections.abc import Iterable
from itertools import permutations, product
from statistics import mean, median, stdev
from typing import Any

from shown import agrees, results, table, text_of

EMULATED = {
    "chips: 24 x 16 cells": "chips",
    "the same, exchange 30% low": "chips, h 30% low",
    "the same, conductivity 20% low": "chips, k 20% low",
    "the same, both low": "chips, both low",
    "chips: 12 x 8 cells": "chips, 12 x 8 cells",
    "chips: an unrelated function": "chips, useless",
    "cantilever: 10 cells": "cantilever",
    "cantilever: an unrelated function": "cantilever, useless",
    "bracket: 432 of 24 x 24 cells": "bracket",
    "tidal: 24 x 6 cells, 96 steps": "tidal",
}


def test_the_table_of_emulators_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/emulated")
    cases = {case["case"]: case for case in data["cases"]}
    rows = {row["emulator"]: row for row in table("docs/measured-fields.md", "emulator | emulated")}
    assert (data["seeds"], data["fits"], data["limit"]) == (5, 20, 40) and rows.keys() == EMULATED.keys()
    for said, name in EMULATED.items():
        for method in ("emulated", "sobol start", "outputs alone", "gp_ei"):
            runs = [str(run["runs"] or "-") for run in cases[name].get(method, [])]
            assert rows[said][method] == ", ".join(runs)
        predicted = cases[name].get("emulated_field of 12") or cases[name]["emulated_gp of 12"]
        assert agrees(rows[said]["error of 12 results"], median(predicted["error"]))
    alone = [median(cases[name]["exact_gp of 12"]["error"]) for name in ("chips", "cantilever")]
    found = re.search(r"The results alone have an error of\s+(\S+) K and (\S+) J", text_of("docs/measured-fields.md"))
    assert found is not None and all(agrees(*pair) for pair in zip(found.groups(), alone, strict=True))


def test_the_medians_are_those_of_the_stored_benchmark():
    cases = {case["case"]: case for case in results("benchmarks/results/emulated")["cases"]}
    limits = {"tidal: 24 x 6 cells, 96 steps": 20}
    rows = table("docs/fields.md", "emulator, median of runs | `emulated`")
    assert len(rows) == 7
    for row in rows:
        said = row["emulator, median of runs"]
        name = EMULATED[said]
        alone = cases["chips, useless" if name.startswith("chips") else name]["gp_ei"]
        for column, runs in (("emulated", cases[name]["emulated"]), ("gp_ei", alone)):
            found = median(run["runs"] or math.inf for run in runs)
            told = f"{found:g}" if math.isfinite(found) else f"more than {limits.get(said, 40)}"
            assert row[column] == told, (said, column)


def test_the_table_of_intervals_that_hold_is_that_of_the_stored_benchmark():
    cases = {case["case"]: case for case in results("benchmarks/results/emulated")["cases"]}
    learners = {"emulated_field": ("of fields: 6", "12", "30"), "emulated_gp": ("outputs alone: 6", "of 12", "of 30")}
    for row in table("docs/measured-fields.md", "emulator | of fields: 6"):
        case = cases[EMULATED[row["emulator"]]]
        for learner, columns in learners.items():
            for column, n in zip(columns, (6, 12, 30), strict=True):
                found = case.get(f"{learner} of {n}")
                assert (row[column] == "") == (found is None)
                if found is not None:
                    held = found["held"]
                    share, error = row[column].removesuffix(")").split(" (")
                    assert len(held) == 20 and agrees(share, mean(held)), (row["emulator"], column)
                    assert agrees(error, stdev(held) / math.sqrt(len(held))), (row["emulator"], column)
    basis = [median(row["held"] for row in results("benchmarks/results/reduced")[f"of {n}"]) for n in (5, 8, 12, 20)]
    said = re.search(
        r"after 5, 8, 12 and 20 results: (\S+), (\S+), (\S+) and (\S+) by", text_of("docs/measured-fields.md")
    )
    assert said is not None and all(agrees(*pair) for pair in zip(said.groups(), basis, strict=True))


# What is good enough, the case, and what its target, 0.1 K or 1% beside the best, is multiplied by and raised by.
USELESS = {
    "chips, within 0.1 K": ("chips, useless", 1.0, 0.0),
    "chips, within 1 K": ("chips, useless", 1.0, 0.9),
    "cantilever, within 1%": ("cantilever, useless", 1.0, 0.0),
    "cantilever, within 10%": ("cantilever, useless", 1.1 / 1.01, 0.0),
    "cantilever, within 50%": ("cantilever, useless", 1.5 / 1.01, 0.0),
}


def _runs(case: dict[str, Any], method: str, target: float, limit: int) -> list[int]:
    """Runs until the target is undercut, by seed; one more than the limit if it is not."""
    found = (enumerate(run["course"], 1) for run in case[method])
    return [next((n for n, value in bests if value <= target), limit + 1) for bests in found]


def _over(pairs: Iterable[tuple[int, int]], limit: int) -> str:
    """How many of the pairs need over a tenth more runs in the first than in the second."""
    found = [one > 1.1 * other and other <= limit for one, other in pairs]
    return f"{sum(found)} of {len(found)}"


def test_the_table_of_unrelated_functions_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/emulated")
    cases, limit = {case["case"]: case for case in data["cases"]}, data["limit"]
    rows = {row["good enough"]: row for row in table("docs/measured-fields.md", "good enough | emulated, mean")}
    assert rows.keys() == USELESS.keys()
    for said, row in rows.items():
        name, times, more = USELESS[said]
        case, target = cases[name], times * cases[name]["target"] + more
        emulated, alone = (_runs(case, method, target, limit) for method in ("emulated", "gp_ei"))
        assert len(emulated) == len(alone) == (40 if name == "cantilever, useless" else 10)
        assert agrees(row["emulated, mean"], mean(emulated)) and agrees(row["gp_ei, mean"], mean(alone)), said
        assert row["over, same seed"] == _over(zip(emulated, alone, strict=True), limit), said
        assert row["over, any seed"] == _over(product(emulated, alone), limit), said
        assert row["gp_ei over gp_ei"] == _over(permutations(alone, 2), limit), said


def test_the_table_of_calibrated_coefficients_is_that_of_the_stored_benchmark():
    cases = {case["case"]: case for case in results("benchmarks/results/emulated")["cases"]}
    rows = table("docs/fields.md", "emulator of chips | stated values")
    names = [EMULATED.get(row["emulator of chips"]) or EMULATED[f"chips: {row['emulator of chips']}"] for row in rows]
    assert names == list(EMULATED.values())[:5]
    for row, name in zip(rows, names, strict=True):
        for column, learner in (("stated values", "emulated_field, stated values"), ("calibrated", "emulated_field")):
            assert agrees(row[column], median(cases[name][f"{learner} of 12"]["error"])), (name, column)
