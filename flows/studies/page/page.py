"""A study as one self-contained page: mean ranks, regret curves and tables by problem, cells not reached."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.report.markup import (
    Content,
    Markup,
    element,
    facts,
    fold,
    joined,
    note,
    page,
    picture,
    section,
    table,
)
from fieldcraft.flows.studies.page.constraints import (
    ABOUT_METRICS,
    LABELS,
    SHORTFALL_HEAD,
    compared_by,
    metric_label,
    shortfall_lines,
    violation_lines,
)
from fieldcraft.flows.studies.page.curves import metric_chart, regret_chart
from fieldcraft.flows.studies.page.text import about_problem, cells_of_row, elsewhere, head_of, reasons, unmeasured
from fieldcraft.flows.studies.scoring.certificates import ABOUT_PROOFS, PROOF_HEAD, proof_lines
from fieldcraft.flows.text import clock, counted

_LEGEND = (
    "regret: how far the true value, without noise, of the design with the best result is from the optimum, mean over "
    "seeds with its standard error; KS p: Kolmogorov-Smirnov test of normality with estimated mean and spread, as in "
    "the papers, which seldom rejects; within 1%: campaigns that tried a design within 1% of the objective's range of "
    "the optimum, and the median number of trials until then, where more than half of them did; CPU s/proposal: "
    "training and choosing of one design, median over campaigns."
)


def study_page(data: Mapping[str, Any]) -> str:
    """The page of the data of ``flows.studies.scoring.results.results``."""
    apart = [each for each in data["problems"] if each["oracle"] and each["rows"]]
    return page(
        f"{data['study']}: study",
        element("h1", data["study"]),
        element("p", lead(data, time.time()), class_="lead"),
        facts(cards(data)),
        _ranks_section(data) if data["ranks"] else None,
        *(_problem_section(data, each) for each in data["problems"] if each["rows"] and not each["oracle"]),
        *map(note, unmeasured(data)),
        section("Problems whose equation was computed from the objective", note(_APART)) if apart else None,
        *(_problem_section(data, each) for each in apart),
        _missing_section(data),
        _environment_section(data) if data["environment"] else None,
        _algorithms_section(data),
    )


_APART = (
    "An algorithm that learns from such an equation is handed the answer. What follows counts neither for ranks nor "
    "for tests."
)


def lead(data: Mapping[str, Any], at: float) -> str:
    """Number of problems and algorithms, and what compares them, as of a time in seconds since the epoch."""
    problems, algorithms = len(data["problems"]), len(data["spec"]["algorithms"])
    return (
        f"{counted(problems, 'problem')}, {counted(algorithms, 'algorithm')}, compared by {compared_by(data)} at "
        "equal budgets. In each seed all begin with the same designs, but for those that are a sequence of their own. "
        f"As of {clock(at)}."
    )


def cards(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Figures at the top of the page: title, value, remark."""
    cells = data["cells"]
    states = {state: sum(cell["state"] == state for cell in cells) for state in ("finished", "failed")}
    left = len(cells) - sum(states.values())
    rest = [f"{states['failed']} failed"] * bool(states["failed"]) + [f"{left} not reached"] * bool(left)
    limit = data["limit_core_hours"]
    found = [
        ("campaigns finished", f"{states['finished']} of {len(cells)}", ", ".join(rest)),
        ("core-hours", f"{data['cpu_seconds'] / 3600:.2f}", f"limit {limit:g}" if limit else ""),
        ("reference of the tests", data["reference"], f"{counted(data['tests'], 'test')} in one family"),
    ]
    if data["ranks"]:
        least = min(rank["mean"] for rank in data["ranks"].values())
        best = [name for name, rank in data["ranks"].items() if rank["mean"] == least]
        found.append(("best mean rank", ", ".join(best), f"{least:.2f}"))
    return found


def rank_lines(data: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the table of mean ranks."""
    ranks = data["ranks"]
    problems = list(next(iter(ranks.values()))["ranks"])
    lines = [
        [
            name,
            f"{of['mean']:.2f}",
            str(of["best"]),
            str(of["last"]),
            *(f"{of['ranks'][problem]:g}" for problem in problems),
        ]
        for name, of in ranks.items()
    ]
    return ["algorithm", "mean rank", "times best", "times last", *problems], lines


def about_ranks(data: Mapping[str, Any]) -> str:
    """Meaning of the ranks."""
    ranks = data["ranks"]
    problems = len(next(iter(ranks.values()))["ranks"])
    return (
        f"Ranks by mean {compared_by(data)} among the {len(ranks)} algorithms that ran on all {problems} "
        "problems, over the seeds that all algorithms of a problem finished; 1 is best."
    )


def _ranks_section(data: Mapping[str, Any]) -> Markup:
    head, rows = rank_lines(data)
    place = list(data["ranks"]).index(data["reference"]) if data["reference"] in data["ranks"] else -1
    found = table(head, rows, range(1, len(head)), marked=(place,))
    return section("Mean ranks", note(about_ranks(data)), found)


def _problem_section(data: Mapping[str, Any], each: Mapping[str, Any]) -> Markup:
    names = [algorithm.get("label") or algorithm["kind"] for algorithm in data["spec"]["algorithms"]]
    reference = data["reference"]
    what = metric_label(each)
    caption = f"Mean {what} and its standard error after each trial; the upright line is the end of the start."
    rows: list[Sequence[Content]] = [list(cells_of_row(row)) for row in each["rows"]]
    marked = [place for place, row in enumerate(each["rows"]) if row["algorithm"] == reference]
    head = [f"q ({reference} better)" if name == "q" else name for name in head_of(each)]
    chart = regret_chart(each, names, reference)
    return section(
        each["problem"],
        note(about_problem(each)),
        chart and picture(chart, f"{what[0].upper()}{what[1:]} by trials on {each['problem']}", caption),
        _data(each["rows"], what, {row["algorithm"]: row["curve"] for row in each["rows"]}) if chart else None,
        table(head, rows, range(1, len(head)), marked=marked),
        _shortfalls(each, names, reference) if "metric" in each else None,
        _proofs(each, reference),
    )


def _proofs(each: Mapping[str, Any], reference: str) -> Markup | None:
    """The table of certificates; None where no algorithm has any."""
    lines = proof_lines(each["rows"])
    if not lines:
        return None
    marked = [place for place, line in enumerate(lines) if line[0] == reference]
    found = table(PROOF_HEAD, lines, range(1, len(PROOF_HEAD)), marked=marked)
    return joined([element("h3", "Certificates"), found])


def _missing_section(data: Mapping[str, Any]) -> Markup | None:
    missing = reasons(data)
    if not missing:
        return None
    rows: list[list[Content]] = [
        [state, str(len(names)), reason, element("code", ", ".join(names))] for state, reason, names in missing
    ]
    return section("Campaigns without a result", table(["state", "number", "reason", "campaigns"], rows, numbers=(1,)))


def _environment_section(data: Mapping[str, Any]) -> Markup:
    of = data["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in of.get("versions", {}).items() if version)
    said = note(
        f"Most campaigns were begun by the code {of.get('commit') or 'of no checkout'} with Python {of.get('python')}, "
        f"{counted(of.get('threads') or 0, 'thread')} each, on {of.get('machine')}: {versions}. A campaign that was "
        "interrupted may have gone on with another."
    )
    rows: list[list[Content]] = [
        [element("code", ", ".join(names)), differences] for differences, names in elsewhere(data)
    ]
    others = table(["campaigns begun in another", "how it differs"], rows) if rows else None
    return section("Environment", said, others)


def _algorithms_section(data: Mapping[str, Any]) -> Markup:
    words: dict[str, str] = {}
    for each in data["problems"]:
        words |= {row["algorithm"]: row["sentence"] for row in each["rows"]}
    rows: list[list[Content]] = [[name, element("code", sentence)] for name, sentence in words.items()]
    tested = note(
        f"q: one-sided Welch t-test that the mean {compared_by(data)} of {data['reference']} is smaller, adjusted for "
        f"all {data['tests']} tests of the study after Benjamini and Hochberg; below 0.05 is called significant."
    )
    constrained = note(ABOUT_METRICS) if any("metric" in each for each in data["problems"]) else None
    proven = note(ABOUT_PROOFS) if any(proof_lines(each["rows"]) for each in data["problems"]) else None
    said = joined([note(_LEGEND), constrained, proven, tested])
    return section("How to read this", said, table(["algorithm", "in words"], rows))


def _shortfalls(each: Mapping[str, Any], names: Sequence[str], reference: str) -> Markup:
    """The other metrics of a problem with constraints: their tables and curves."""
    lines, (head, violations) = shortfall_lines(each["rows"]), violation_lines(each)
    marked = [place for place, line in enumerate(lines) if line[0] == reference]
    charts = [
        (metric, label, metric_chart(each, names, reference, metric))
        for metric, label in LABELS.items()
        if metric != each["metric"]
    ]
    of = {
        metric: {row["algorithm"]: row["constrained"]["metrics"][metric]["curve"] for row in each["rows"]}
        for metric in LABELS
    }
    return joined(
        [
            table(SHORTFALL_HEAD, lines, range(1, len(SHORTFALL_HEAD)), marked=marked),
            note("Sum of each constraint's violations over all trials, in its own unit, mean over campaigns:"),
            table(head, violations, range(1, len(head)), marked=[place + 1 for place in marked]),
            *(
                piece
                for metric, label, chart in charts
                if chart is not None
                for piece in (
                    picture(chart, f"{label} by trials on {each['problem']}", label),
                    _data(each["rows"], label, of[metric]),
                )
            ),
        ]
    )


def _data(rows: Sequence[Mapping[str, Any]], what: str, curves: Mapping[str, Mapping[str, Any]]) -> Markup:
    """The numbers behind a picture: after each trial the mean of each algorithm and its standard error."""
    most = max(len(curve["mean"]) for curve in curves.values())
    head = ["trials", *(f"{row['algorithm']} (n = {row['n']})" for row in rows)]
    lines = [[str(n + 1), *(_cell(curves[row["algorithm"]], n) for row in rows)] for n in range(most)]
    shown = table(head, lines, range(len(head)))
    return fold(f"Data: mean {what} after each trial ± its standard error", shown)


def _cell(curve: Mapping[str, Any], n: int) -> str:
    mean, error = (curve[key][n] if n < len(curve[key]) else None for key in ("mean", "error"))
    if mean is None or not math.isfinite(mean):
        return ""
    return f"{mean:.4g}" if error is None else f"{mean:.4g} ± {error:.2g}"
