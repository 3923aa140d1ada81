"""The docs' tables of figures are those of the stored results, and what docs/examples.md counts is there."""

import re
import statistics
from statistics import fmean, median, stdev
from typing import Any

import pytest
import yaml
from shown import ROOT, agrees, results, table, text_of

SIZES = ("50", "200", "500", "1,000", "2,000")


def listed(cell: str) -> list[str]:
    return [] if cell == "-" else cell.split(", ")


def test_a_number_agrees_with_what_it_rounds_and_with_nothing_else():
    assert agrees("0.23", 0.2349) and not agrees("0.23", 0.2351)
    assert agrees("3,600", 3622.0) and not agrees("3,600", 3660.0)
    assert agrees("3.7e-05", 3.66e-05) and not agrees("3.7e-05", 3.76e-05)
    assert agrees("119", 118.7) and not agrees("119", 120.0)


def test_the_table_of_ranks_is_that_of_the_stored_study():
    data = results("studies/results/rivals")
    groups = {"heat 1-3": ["heat1", "heat2", "heat3"], "Styblinski": ["styblinski_tang"]}
    rows = table("docs/methods.md", "algorithm | mean rank")
    assert [row["algorithm"] for row in rows] == sorted(data["ranks"], key=lambda name: data["ranks"][name]["mean"])
    for row in rows:
        stored = data["ranks"][row["algorithm"]]
        assert row["mean rank"] == f"{stored['mean']:.1f}"
        for title, cell in list(row.items())[2:]:
            ranks = [stored["ranks"][problem] for problem in groups.get(title, [title.lower()])]
            assert cell == ", ".join(f"{rank:g}" for rank in ranks), (row["algorithm"], title)


def test_the_table_of_hebo_is_that_of_the_stored_study_on_the_campaigns_of_the_rivals():
    data, rivals = results("studies/results/hebo"), results("studies/results/rivals")
    stored = {problem["problem"]: {row["algorithm"]: row for row in problem["rows"]} for problem in data["problems"]}
    rows = table("docs/measured.md", "problem | `auto` | HEBO | q")
    assert [row["problem"] for row in rows] == list(stored)
    for row in rows:
        found = stored[row["problem"]]
        for title, algorithm in (("auto", "auto"), ("HEBO", "hebo")):
            mean, error = row[title].removesuffix(")").split(" (")
            assert agrees(mean, found[algorithm]["mean"]) and agrees(error, found[algorithm]["error"]), row
        assert agrees(row["q"], found["hebo"]["q"])
    better = [each for each in stored.values() if each["auto"]["mean"] < each["hebo"]["mean"]]
    sure = [each for each in better if each["hebo"]["q"] <= 0.05]
    said = f"`auto` is ahead on {len(better)} of {len(rows)}, significantly on {len(sure)}."
    assert said in " ".join(text_of("docs/measured.md").split())
    regrets = [
        {(cell["problem"], cell["seed"]): cell["final_regret"] for cell in each["cells"] if cell["algorithm"] == "auto"}
        for each in (data, rivals)
    ]
    assert len(regrets[0]) == 60 and regrets[0].items() <= regrets[1].items()
    ends: dict[str, dict[str, list[float]]] = {}
    for cell in (*rivals["cells"], *(cell for cell in data["cells"] if cell["algorithm"] == "hebo")):
        if cell["seed"] <= 5:
            ends.setdefault(cell["problem"], {}).setdefault(cell["algorithm"], []).append(cell["final_regret"])
    orders = [sorted(each, key=lambda name: fmean(each[name])) for each in ends.values()]
    ranks = {name: fmean(order.index(name) + 1 for order in orders) for name in orders[0]}
    best = {name: f"{ranks[name]:.1f}" for name in sorted(ranks, key=ranks.__getitem__)[:5]}
    assert best == {"auto": "1.7", "baybe": "4.0", "gp_ei": "4.2", "ax": "4.9", "hebo": "5.0"}
    said = "are 1.7 (`auto`), 4.0 (BayBE), 4.2 (`gp_ei`), 4.9 (Ax) and 5.0 (HEBO, second on the plates and first on"
    assert len(ranks) == 14 and said in " ".join(text_of("docs/measured.md").split())


def test_what_is_said_of_the_stored_studies_is_what_they_hold():
    pages = ("docs/methods.md", "docs/measured.md", "docs/examples.md")
    methods, measured, examples = (" ".join(text_of(name).split()) for name in pages)
    data = results("studies/results/rivals")
    done, tests = [cell for cell in data["cells"] if cell["state"] == "finished"], data["tests"]
    assert len(done) == len(data["cells"])
    assert f"ten seeds, {len(done)} campaigns in {data['cpu_seconds'] / 3600:.1f} core-hours" in methods
    significant = [row for problem in data["problems"] for row in problem["rows"] if (row.get("q") or 1) <= 0.05]
    assert f"Of {tests} tests of it against another on one problem {len(significant)} are significant" in methods
    four = [(name, f"{rank['mean']:.1f}") for name, rank in data["ranks"].items()][:4]
    assert four == [("auto", "1.4"), ("gp_ei", "3.7"), ("baybe", "3.9"), ("ax", "4.1")]
    assert "(1.4; the plain Gaussian process 3.7, BayBE 3.9, Ax 4.1)" in examples
    data = results("studies/results/constrained")
    assert all(cell["state"] == "finished" for cell in data["cells"])
    hours = data["cpu_seconds"] / 3600
    assert f"{len(data['cells'])} campaigns, ten seeds, in {hours:.2f} core-hours" in measured
    means = {name: f"{rank['mean']:.3g}" for name, rank in data["ranks"].items()}
    expected = {"neural_cbo": "1.83", "auto": "2.5", "cei": "2.83", "optuna_gp": "3.67", "botorch_log_ei": "4.17"}
    assert means == {**expected, "random": "6"}
    assert (
        "`neural_cbo` 1.83, `auto` 2.5, `cei` 2.83, Optuna's GPSampler 3.67, BoTorch's LogEI 4.17, random 6" in measured
    )
    assert "(1.8; `auto` 2.5, `cei` 2.8, Optuna 3.7, BoTorch 4.2;" in examples
    data = results("studies/results/certified")
    assert f"All {len(data['cells'])} cells, ten seeds, in {data['cpu_seconds'] / 3600:.2f} core-hours" in measured


def test_the_processor_seconds_that_are_said_are_those_of_the_stored_study():
    data, docs = results("studies/results/rivals"), " ".join(text_of("docs/methods.md").split())
    seconds: dict[str, list[float]] = {}
    for row in (row for problem in data["problems"] if not problem["oracle"] for row in problem["rows"]):
        seconds.setdefault(row["algorithm"], []).append(row["cpu_per_proposal"])
    seconds["BoTorch"] = seconds["botorch_log_ei"] + seconds["botorch_qlognei"]
    names = {"`auto`": "auto", "`gp_ei`": "gp_ei", "BoTorch": "BoTorch", "Ax": "ax", "BayBE": "baybe"}
    names |= {"`turbo`": "turbo", "`smac`": "smac", "`optuna_gp`": "optuna_gp"}
    (said,) = re.findall(r"Processor seconds a proposal at these sizes: (.*?)\.(?= )", docs)
    told = dict(re.findall(r"(\S+) ([\d.]+ to [\d.]+)", said))
    assert list(told) == list(names)
    for name, stored in names.items():
        low, high = told[name].split(" to ")
        assert agrees(low, min(seconds[stored])) and agrees(high, max(seconds[stored])), name


NEURAL_BO = {
    "neural-bo-options": ("options | in that study", ["neural_bo_paper", "paper_about_best"], 10),
    "neural-bo-images": ("network and search | in that study", ["neural_bo", "whole"], 5),
}


@pytest.mark.parametrize("study", list(NEURAL_BO))
def test_the_table_of_neural_bos_options_is_that_of_the_stored_study(study):
    data, (head, first, seeds) = results(f"studies/results/{study}"), NEURAL_BO[study]
    stored = {(p["problem"], row["algorithm"]): row for p in data["problems"] for row in p["rows"]}
    rows = table("docs/measured.md", head)
    assert [row["in that study"].strip("`") for row in rows][:2] == first
    for row in rows:
        for title, cell in list(row.items())[2:]:
            found = stored[title.lower().replace("-", ""), row["in that study"].strip("`")]
            mean, error = cell.removesuffix(")").split(" (")
            assert found["n"] == seeds and agrees(mean, found["mean"]) and agrees(error, found["error"]), (row, title)
    said = f"{len(data['cells'])} campaigns in {data['cpu_seconds'] / 3600:.2f} core-hours"
    assert said in " ".join(text_of("docs/measured.md").split())


def test_the_page_of_examples_counts_what_the_studies_hold():
    examples = " ".join(text_of("docs/examples.md").split())
    study = yaml.safe_load(text_of("studies/rivals.yaml"))
    assert (
        f"sets {len(study['algorithms'])} algorithms against each other on {len(study['problems'])} problems"
        in examples
    )
    assert len(yaml.safe_load(text_of("studies/constrained.yaml"))["problems"]) == 6
    assert "sets them against BoTorch and Optuna on six such problems" in examples


CONSTRAINED = {
    "Branin": ("branin", 1),
    "Simionescu (1e-6)": ("simionescu", 1e-6),
    "gas compressor (1,000)": ("gas_compressor", 1000),
    "Ackley (5)": ("ackley", 1),
    "Hartmann (6)": ("hartmann", 1),
    "speed reducer, 11 constraints": ("reducer", 1),
}


def test_the_table_of_unknown_constraints_is_that_of_the_stored_study():
    data = results("studies/results/constrained")
    rows = table("docs/measured.md", "problem | trials | `auto` | `cei`")
    assert [row["problem"] for row in rows] == list(CONSTRAINED)
    trials = {problem["problem"]: problem["trials"] for problem in data["problems"]}
    for row in rows:
        problem, unit = CONSTRAINED[row["problem"]]
        assert row["trials"] == str(trials[problem])
        for algorithm, cell in list(row.items())[2:]:
            done = [c for c in data["cells"] if (c["problem"], c["algorithm"]) == (problem, algorithm.strip("`"))]
            regrets = [c["final_visited"] for c in done if c["state"] == "finished"]
            known, of = [regret / unit for regret in regrets if regret is not None], f"{len(regrets)}"
            said, feasible = cell.split("; ") if "; " in cell else (cell, f"{of} of {of}")
            assert feasible == f"{len(known)} of {of}", (problem, algorithm)
            mean, *error = said.removesuffix(")").split(" (")
            assert agrees(mean, fmean(known)), (problem, algorithm)
            assert len(known) == 1 or agrees(*error, stdev(known) / len(known) ** 0.5), (problem, algorithm)


def test_the_table_of_certified_studies_is_that_of_the_stored_study():
    data = results("studies/results/certified")
    rows = table("docs/measured.md", "problem | certified to 0.01")
    assert [re.match(r"\w+", row["problem"])[0].lower() for row in rows] == [p["problem"] for p in data["problems"]]
    for row, problem in zip(rows, data["problems"], strict=True):
        stored = {each["algorithm"]: each for each in problem["rows"]}
        proof = stored["certified"]["proof"]
        assert row["certified to 0.01"] == f"{proof['certified']:.0%}"
        assert agrees(row["CPU s, 90%"], proof["cpu_p90"]), problem["problem"]
        for algorithm in ("certified", "multistart", "pk_miqp", "botorch_log_ei", "optuna_gp"):
            said, each = row[algorithm], stored.get(algorithm)
            assert said == "-" if each is None else agrees(said, each["mean"]), (problem["problem"], algorithm)


def _own(row: dict[str, Any]) -> bool:
    return row["method"] == "certified" and row["line"] != "scip"


def test_the_table_of_certificates_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/certified")
    found = {(row["d"], row["n"]): row["outcomes"] for row in data["rows"] if _own(row)}
    for row in table("docs/measured.md", "coordinates, trials"):
        size = tuple(map(int, row["coordinates, trials"].split(", ")))
        outcomes = found[size]
        typical, most = row["processor time, median (most)"].replace(" s", "").strip(")").split(" (")
        assert agrees(typical, median(outcomes["cpu_s"])), size
        assert agrees(most, max(outcomes["cpu_s"])), size
        nodes = median(outcomes["nodes"])
        assert float(row["nodes, median"].replace(",", "")) == pytest.approx(nodes, rel=0.05), size
        closed = sum(status == "optimal" for status in outcomes["status"])
        assert row["closed"].startswith(f"{closed} of {len(outcomes['status'])}"), size


def test_the_misses_that_are_said_are_those_of_the_stored_benchmark():
    rows = [row for row in results("benchmarks/results/certified")["rows"] if row["line"] != "scip"]
    missed: dict[str, int] = {}
    for row in rows:
        missed[row["method"]] = missed.get(row["method"], 0) + row["misses"]
    assert sum(len(row["outcomes"]["cpu_s"]) for row in rows if _own(row)) == 480
    said = "COBYLA 44, of trust-constr 54, of SLSQP 63, of Nelder-Mead 101, and the one fixed start of L-BFGS-B"
    assert said in " ".join(text_of("docs/measured.md").split())
    assert missed == {
        "certified": 1,
        "BoTorch, 10 of 512": 0,
        "10,000 + 20 L-BFGS-B": 1,
        "COBYLA, 5 starts": 44,
        "trust-constr, 5 starts": 54,
        "SLSQP, 5 starts": 63,
        "Nelder-Mead, 5 starts": 101,
        "L-BFGS-B, 1 start": 329,
    }


def test_the_table_of_conditions_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/conditions")
    cases = {case["case"]: case for case in data["cases"]}
    rows = {row["problem"]: row for row in table("docs/conditions.md", "problem | no physics")}
    assert (data["seeds"], data["trials"]) == (5, 15)
    assert rows.keys() == {*cases, "burgers, trained", "burgers, ntk"} - {"burgers"}
    for said, row in rows.items():
        flow, _, engine = said.partition(", ") if said.startswith("burgers") else (said, "", "kernel")
        case = cases[flow]
        expected = {"no physics": case.get("error of exact_gp")}
        expected |= {told: case.get(f"error of {engine}, {told}") for told in ("equation", "mask", "conditions")}
        for told, known in (("no physics", "nothing"), ("equation", "equation"), ("conditions", "conditions")):
            runs = case.get(f"regret with {known}") if engine != "ntk" else None
            expected[f"regret: {told}"] = runs and [run[-1] for run in runs]
        for column, values in expected.items():
            assert row[column] == "" if values is None else agrees(row[column], fmean(values)), (said, column)


STUDIES_OF_FIELDS = [
    ("fields", "fields", "emulated", 220),
    ("composite", "measured-fields", "botorch_composite", 180),
    ("composite-brusselator", "measured-fields", "auto | botorch_composite", 50),
    ("pollutant", "fields", "field_pod", 100),
    ("brusselator", "fields", "field_ensemble", 100),
]


@pytest.mark.parametrize(("study", "page", "first", "cells"), STUDIES_OF_FIELDS)
def test_a_table_of_a_study_of_fields_is_that_of_the_stored_study(study, page, first, cells):
    data = results(f"studies/results/{study}")
    problems = {problem["problem"]: problem["rows"] for problem in data["problems"]}
    rows = table(f"docs/{page}.md", f"problem | {first}")
    assert [row["problem"] for row in rows] == list(problems) and len(data["cells"]) == cells
    assert {cell["state"] for cell in data["cells"]} == {"finished"}
    for row in rows:
        known = {each["algorithm"]: (each["mean"], each["error"]) for each in problems[row["problem"]]}
        assert {name for name, cell in row.items() if cell} == {"problem", *known}
        for name, (mean, error) in known.items():
            said = row[name].removesuffix(")").split(" (")
            assert agrees(said[0], mean) and agrees(said[1], error)


def test_the_table_of_many_cells_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/many_cells")
    assert (data["trials"], data["cells"]) == (60, 1224 * 816)
    rows = table("docs/measured-fields.md", "surrogate, its fields | reading the fields")
    assert len(rows) == len(data["rows"])
    for row, found in zip(rows, data["rows"], strict=True):
        assert row["surrogate, its fields"] == f"{found['surrogate']}, {found['fields_seen']}"
        others = found["pass"] - found["train"] - found["acquire"]
        training = found["train"] - found["fields"], found.get("train_solving")
        acquisition = found["acquire"], found.get("acquire_solving")
        told = found["fields"], *training, *acquisition, others, found["mib"]
        for cell, each in zip(list(row.values())[1:], told, strict=True):
            assert not cell if each is None else agrees(cell, each), row


def test_the_pages_name_every_campaign_file_and_every_study():
    pages = "".join(text_of(f"docs/{name}.md") for name in ("heat", "examples"))
    files = [*ROOT.glob("campaigns/*.yaml"), *ROOT.glob("studies/*.yaml")]
    text = pages + text_of("docs/methods.md") + text_of("docs/measured.md")
    assert [file.name for file in files if file.name not in text] == []
    assert [
        name for name in re.findall(r"(?:campaigns|studies)/[\w-]+\.yaml", pages) if not (ROOT / name).exists()
    ] == []


def test_the_table_of_warm_starts_is_that_of_the_stored_benchmark():
    rows = results("benchmarks/results/warm_starts")["rows"]
    shown = table("docs/measured.md", "earlier campaign | chips, 0.5 K")
    columns = [
        (title, title.split(",")[0].lower(), k)
        for k, titles in enumerate(
            (("chips, 0.5 K", "Branin, 0.5", "Hartmann, 0.3"), ("chips, 0.2 K", "Branin, 0.1", "Hartmann, 0.1"))
        )
        for title in titles
    ]
    for row, earlier in zip(shown, ("none", "similar", "useless"), strict=True):
        for title, family, k in columns:
            ended = [each["runs"][k] for each in rows if (each["family"], each["earlier"]) == (family, earlier)]
            runs = [n or (41 if family == "chips" else 61) for n in ended]
            error = statistics.stdev(runs) / len(runs) ** 0.5
            never = f", {ended.count(None)} never" if None in ended else ""
            assert row[title] == f"{statistics.mean(runs):.1f} ({error:.1f}){never}" and len(runs) == 20


def test_the_table_of_several_objectives_is_that_of_the_stored_cells():
    cells = results("benchmarks/results/objectives")["cells"]
    rows = table("docs/measured.md", "hypervolume, mean (least) | trials")
    assert len(rows) == 3
    for row in rows:
        for method in ("gp_ehvi", "botorch", "random"):
            n = int(row["trials"])
            own = [c for c in cells if (c["problem"], c["method"]) == (row["hypervolume, mean (least)"], method)]
            values = [cell["hypervolume"][n - 1] for cell in own if len(cell["hypervolume"]) >= n]
            if not values:
                assert row[method] == "-"
                continue
            mean, least = row[method].split("; ")[0].removesuffix(")").split(" (")
            assert agrees(mean, fmean(values)) and agrees(least, min(values))
            assert f"; {len(values)} seed" in row[method] or len(values) == 5


def test_the_table_of_the_study_of_objectives_is_that_of_the_stored_study():
    study = results("studies/results/objectives")
    rows = {row["study of"]: row for row in table("docs/measured.md", "study of | gp_ehvi")}
    assert rows.keys() == {problem["problem"] for problem in study["problems"]}
    for problem in study["problems"]:
        found = {each["algorithm"]: each for each in problem["rows"]}
        for algorithm, said in list(rows[problem["problem"]].items())[1:]:
            mean, error = said.removesuffix(")").split(" (")
            one = found[algorithm]
            assert one["n"] == 10, algorithm
            assert agrees(mean, problem["optimum"] - one["mean"]) and agrees(error, one["error"]), (problem, algorithm)


def test_the_table_of_computed_objectives_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/derived")
    rows = table("docs/outputs.md", "objective | variables | through its parts")
    assert (data["seeds"], data["limit"]) == (5, 40)
    for row, found in zip(rows, data["rows"], strict=True):
        assert f"(`{found['problem']}`)" in row["objective"] and row["variables"] == str(found["dimension"])
        for column, way in (("through its parts", "parts"), ("by its number", "number")):
            assert row[column] == ", ".join(str(runs or "-") for runs in found[way]), row
    own = {row["problem"]: row["own"] for row in data["rows"] if "own" in row}
    assert own["exchanger"] == [None] * 5
    said = " and ".join([", ".join(map(str, own["reaction"][:-1])), str(own["reaction"][-1])])
    assert f"on the reaction they took {said}" in " ".join(text_of("docs/outputs.md").split())


def test_the_tables_of_kernels_are_those_of_the_stored_benchmark():
    found = results("benchmarks/results/kernels")
    fits = table("docs/measured.md", "trials of | matern52")
    assert len(fits) == 12
    for row in fits:
        for kernel in ("matern52", "chosen", "trend_gp"):
            one = found[f"predictions | {row['trials of']} | {kernel}"]
            assert row[kernel] == f"{one['density']:.2f} ({one['error']:.2f})", row
    shown = (
        ("objectives of | trials | matern52", {"matern52": "matern52", "chosen": "chosen"}),
        ("several objectives | log_ehvi", {"log_ehvi": "chosen", "log_nehvi": "chosen, drawn fronts"}),
    )
    for header, columns in shown:
        rows = table("docs/measured.md", header)
        assert len(rows) == 6
        for row in rows:
            problem = next(iter(row.values()))
            ends = [
                [found[f"several | {problem} | {name} | {seed}"]["end"] for seed in range(5)]
                for name in columns.values()
            ]
            for title, each in zip(columns, ends, strict=True):
                mean, error = row[title].removesuffix(")").split(" (")
                assert agrees(mean, fmean(each)) and agrees(error, stdev(each) / 5**0.5), row
            assert row["better on"] == str(sum(new > old for old, new in zip(*ends, strict=True))), row


def test_the_table_of_starts_is_that_of_the_stored_benchmark():
    found = results("benchmarks/results/starts")
    for row in table("docs/measured.md", "problem | trials | designs first"):
        for method in ("gp_ei", "auto"):
            runs = [found[f"{row['problem']} | {method} | {row['designs first']} | {seed}"] for seed in range(10)]
            for column, at in (("half", 1), ("end", 3)):
                least = [run[at] for run in runs]
                assert row[f"{method}`, {column}"] == f"{fmean(least):.3g} ({stdev(least) / 10**0.5:.2g})", row


def test_the_table_of_the_middle_is_that_of_the_stored_benchmark():
    found = results("benchmarks/results/middle")
    rows = table("docs/measured.md", "problem | method | seeds | half, Sobol")
    assert len(rows) == 28
    for row in rows:
        about, seeds = f"{row['problem']} | {row['method'].strip('`')}", range(int(row["seeds"]))
        ends = {}
        for title, first in (("Sobol", "sobol"), ("with the middle", "centred")):
            runs = [found[f"{about} | {first} | {seed}"] for seed in seeds]
            for column, at in (("half", 1), ("end", 3)):
                least = [run[at] for run in runs]
                assert row[f"{column}, {title}"] == f"{fmean(least):.3g} ({stdev(least) / len(seeds) ** 0.5:.2g})", row
            ends[first] = [run[3] for run in runs]
        assert int(row["better at the end"]) == sum(a > b for a, b in zip(ends["sobol"], ends["centred"], strict=True))


def test_the_table_of_levels_is_that_of_the_stored_benchmark():
    rows = results("benchmarks/results/levels")["rows"]
    for row in table("docs/levels.md", "simulator and levels | searches"):
        (family,) = re.findall(r"\(`(\w+)`\)", row["simulator and levels"])
        costs = {}
        for title, method in (("alone", "alone"), ("short start", "short"), ("with levels", "levels")):
            own = sorted((r for r in rows if (r["family"], r["method"]) == (family, method)), key=lambda r: r["seed"])
            costs[method] = [60.0 if r["cost"] is None else r["cost"] for r in own]
            missed = sum(r["cost"] is None for r in own)
            assert row[title] == f"{fmean(costs[method]):.1f}" + (f"; {missed} not" if missed else "")
            assert [r["seed"] for r in own] == list(range(int(row["searches"])))
        alone, levels, n = costs["alone"], costs["levels"], len(costs["alone"])
        ratio = sum(levels) / sum(alone)
        squares = sum((y - ratio * x) ** 2 for x, y in zip(alone, levels, strict=True))
        assert row["ratio of the sums"] == f"{ratio:.2f} ± {(n * squares / (n - 1)) ** 0.5 / sum(alone):.2f}"


def test_the_table_of_levels_with_an_emulator_is_that_of_the_stored_benchmarks():
    def costs(name, family, method):
        rows = [
            r
            for r in results(f"benchmarks/results/{name}")["rows"]
            if (r["family"], r["method"]) == (family, method) and r["seed"] < 5
        ]
        found = sorted(rows, key=lambda row: row["seed"])
        assert [row["seed"] for row in found] == list(range(len(found)))
        return ", ".join("-" if row["cost"] is None else f"{row['cost']:.3g}" for row in found)

    cases = {case["case"]: case for case in results("benchmarks/results/emulated")["cases"]}
    for row in table("docs/levels.md", "simulator and emulator | emulator alone"):
        (family,) = re.findall(r"\(`(.+)`\)", row["simulator and emulator"])
        if family == "tidal":
            alone, levels = costs("emulated_levels", family, "emulator"), ""
        else:
            known = cases[family.replace("chips ", "chips, ").replace("8", "8 cells")]["emulated"]
            alone, levels = ", ".join(str(run["runs"] or "-") for run in known), costs("levels", "chips", "levels")
        shown = [row[title] for title in ("emulator alone", "levels alone", "both")]
        assert shown == [alone, levels, costs("emulated_levels", family, "both")]


def test_the_table_of_proposals_is_that_of_the_stored_benchmark():
    rows = results("benchmarks/results/proposals")["rows"]
    found = {(row["method"], f"{row['trials']:,}"): row["mean"] for row in rows}
    shown = table("docs/measured.md", "CPU s a proposal, by trials | 50")
    told = {
        (method, n): seconds
        for method, *row in (row.values() for row in shown)
        for n, seconds in zip(SIZES, row, strict=True)
    }
    assert told.keys() == found.keys() and all(agrees(told[one], found[one]) for one in found)
    least, most = (
        [f(found[rival, n] / found["gp_ei", n] for n in SIZES) for rival in ("botorch_log_ei", "optuna_gp")]
        for f in (min, max)
    )
    said = (
        f"`gp_ei` is {least[0]:.0f} to {most[0]:.0f} times cheaper than BoTorch's LogEI and {least[1]:.1f} to "
        f"{most[1]:.0f} times cheaper than Optuna's GPSampler, and `auto` takes at most "
        f"{max(found['auto', n] / found['gp_ei', n] for n in SIZES):.1f} times what `gp_ei` takes."
    )
    assert said in " ".join(text_of("docs/measured.md").split())


def test_the_table_of_a_studys_cells_is_that_of_the_stored_benchmark():
    found = {(row["cell"], row["tree"]): row for row in results("benchmarks/results/cells")["rows"]}
    rows = table("docs/measured.md", "cell, its problem | start")
    assert len(rows) == 4
    for row in rows:
        name = row["cell, its problem"].partition(",")[0]
        now, before = found[name, "this"], found[name, "other"]
        told = {**now, "train before": before["train"], "all before": before["all"]}
        assert all(agrees(cell, told[title]) for title, cell in list(row.items())[1:]), row


def test_the_table_of_priors_is_that_of_the_stored_campaigns():
    files = {"": results("benchmarks/results/priors"), " before": results("benchmarks/results/priors_before")}
    rows = table("docs/measured.md", "problem | gp_ei before")
    for row in rows:
        for method in ("gp_ei", "auto"):
            for when, stored in files.items():
                begins = f"{row['problem']} | {method} | "
                ends = [one["end"] for key, one in stored.items() if key.startswith(begins)]
                error = stdev(ends) / len(ends) ** 0.5 if ends else 0.0
                said = f"{fmean(ends):.3g} ({error:.2g}), {len(ends)}" if ends else "-"
                assert row[method + when] == said, (row["problem"], method, when)
    campaigns = {key.rsplit(" | ", 1)[0] for stored in files.values() for key, one in stored.items() if "end" in one}
    assert campaigns <= {f"{row['problem']} | {method}" for row in rows for method in ("gp_ei", "auto")}
    fits = table("docs/measured.md", "trials of | exact_gp before")
    for row in fits:
        for surrogate in ("exact_gp", "additive_gp"):
            for when, stored in files.items():
                one = stored[f"{row['trials of']} | {surrogate}"]
                assert row[surrogate + when] == f"{one['density']:.2f} ({one['error']:.2f})", (row, surrogate, when)
    told = {f"{row['trials of']} | {surrogate}" for row in fits for surrogate in ("exact_gp", "additive_gp")}
    assert {key for stored in files.values() for key, one in stored.items() if "density" in one} == told


def test_the_table_of_equations_in_many_variables_is_that_of_the_stored_benchmark():
    data = results("benchmarks/results/equations")
    rows = table("docs/measured.md", "function | kernel, error")
    assert [row["function"].lower().replace("-", "_").replace(" ", "_") for row in rows] == [
        each["function"] for each in data["functions"]
    ]
    for row, each in zip(rows, data["functions"], strict=True):
        for name in ("kernel", "exact_gp"):
            errors = [fmean(each[f"error of {name}, {d}"]) for d in (4, 10, 20)]
            assert all(map(agrees, listed(row[f"{name}, error"]), errors)), row
            regrets = each[f"regret of {name}"]
            mean, doubt = row[f"{name}, regret"].rstrip(")").split(" (")
            assert agrees(mean, fmean(regrets)) and agrees(doubt, stdev(regrets) / len(regrets) ** 0.5), row
