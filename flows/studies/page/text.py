"""A study as text: progress while it runs, tables at its end."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fieldcraft.flows.studies.page.constraints import SHORTFALL_HEAD, metric_label, shortfall_lines
from fieldcraft.flows.studies.plan.spec import Cell
from fieldcraft.flows.studies.scoring.certificates import PROOF_HEAD, proof_lines
from fieldcraft.flows.text import counted, one_line

HEAD = ("algorithm", "n", "rank", "regret", "± s.e.", "median", "KS p", "q", "within 1%", "CPU s/proposal")


def results_text(data: Mapping[str, Any]) -> str:
    """The tables of a study."""
    blocks = [_ranks_text(data)] if data["ranks"] else []
    blocks += [_problem_text(each) for each in data["problems"] if each["rows"]]
    return "\n\n".join(["", *blocks, _state_text(data)])


def head_of(problem: Mapping[str, Any]) -> list[str]:
    """``HEAD`` with the name of the metric that compares a problem's algorithms."""
    return [metric_label(problem) if name == "regret" else name for name in HEAD]


def cells_of_row(row: Mapping[str, Any]) -> list[str]:
    """Cells of an algorithm's row in the table of a problem, in the order of ``HEAD``."""
    arrived = "" if row["arrived"] is None else f"{row['arrived']} of {row['n']}"
    if row["arrived_median"] is not None:
        arrived += f", median {row['arrived_median']:g}"
    return [
        row["algorithm"],
        str(row["n"]),
        short(row["rank"], "{:g}"),
        "none" if row["mean"] is None else short(row["mean"]),
        short(row["error"]),
        short(row["median"]),
        short(row["normality"], "{:.2f}"),
        short(row["q"], "{:.2g}"),
        arrived,
        short(row["cpu_per_proposal"], "{:.2g}"),
    ]


def short(value: float | None, form: str = "{:.3g}") -> str:
    """A number as text; empty for None."""
    return "" if value is None else form.format(value)


def about_problem(each: Mapping[str, Any]) -> str:
    """Problem, sense, budget and noise in words."""
    unit = f" {each['unit']}" if each["unit"] else ""
    seeds = max((row["n"] for row in each["rows"]), default=0)
    noise = f"noise {each['noise_sd']:.3g}{unit}" if each["noise_sd"] else "no noise"
    if share := each.get("constraint_noise"):
        noise += f", and on each constraint {share:g} of its spread"
    optimum = f"optimum {each['optimum']:.6g}{unit}" + ("" if each["optimum_known"] else " (best of the study)")
    shared = len(each["seeds"])
    some = "" if shared == seeds else f"; ranks and tests over the {counted(shared, 'seed')} that all finished"
    constraints = counted(len(each["constraints"]), "constraint") if "metric" in each else ""
    compared = f"; {constraints}, compared by {metric_label(each)}" if constraints else ""
    oracle = "; the equation was computed from the objective: reported apart" if each["oracle"] else ""
    return (
        f"{each['sense'] or 'maximize'} {each['objective']}, {each['trials']} trials of which {each['start']} start, "
        f"{counted(seeds, 'seed')}, {noise}; {optimum}{compared}{some}{oracle}"
    )


def unmeasured(data: Mapping[str, Any]) -> list[str]:
    """One sentence for each problem that has finished campaigns but no table, with the reason."""
    ended = Counter(cell["problem"] for cell in data["cells"] if cell["state"] == "finished")
    return [
        f"{name}: {counted(ended[name], 'campaign')} finished without a feasible design, and no optimum is known: "
        "there is nothing to tell a regret from, and no table."
        for name in (each["problem"] for each in data["problems"] if not each["rows"])
        if ended[name]
    ]


def reasons(data: Mapping[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Cells without a result, by state and reason: (state, reason, names)."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in data["cells"]:
        if cell["state"] != "finished":
            found.setdefault((cell["state"], one_line(cell.get("reason") or "")), []).append(cell["cell"])
    return [(*key, names) for key, names in found.items()]


def _ranks_text(data: Mapping[str, Any]) -> str:
    ranks = data["ranks"]
    problems = list(next(iter(ranks.values()))["ranks"])
    rows = [
        [name, f"{of['mean']:.2f}", *(f"{of['ranks'][problem]:g}" for problem in problems)]
        for name, of in ranks.items()
    ]
    return _table(f"Mean ranks over {counted(len(problems), 'problem')}", ["algorithm", "mean", *problems], rows)


def _problem_text(each: Mapping[str, Any]) -> str:
    title = f"{each['problem']}: {about_problem(each)}"
    tables = [_table(title, head_of(each), [cells_of_row(row) for row in each["rows"]])]
    if lines := shortfall_lines(each["rows"]):
        tables.append(_table(f"{each['problem']}: constraints", SHORTFALL_HEAD, lines))
    if lines := proof_lines(each["rows"]):
        tables.append(_table(f"{each['problem']}: certificates", PROOF_HEAD, lines))
    return "\n\n".join(tables)


def _state_text(data: Mapping[str, Any]) -> str:
    cells = data["cells"]
    done = sum(cell["state"] == "finished" for cell in cells)
    lines = [
        f"{done} of {counted(len(cells), 'cell')} finished, {data['cpu_seconds'] / 3600:.2f} core-hours. q: one-sided "
        f"Welch test that {data['reference']} is better, Benjamini-Hochberg over {data['tests']} tests."
    ]
    lines += unmeasured(data)
    for state, reason, names in reasons(data):
        lines.append(f"{state}: {_some_of(names)}" + (f": {reason}" if reason else ""))
    for said, names in elsewhere(data):
        lines.append(f"begun in another environment: {_some_of(names)}: {said}")
    return "\n".join(lines)


def elsewhere(data: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Differences from the environment in which most campaigns were begun: (keys with both values, names)."""
    found: dict[str, list[str]] = {}
    for cell, said in data["elsewhere"].items():
        found.setdefault(one_line(said), []).append(cell)
    return list(found.items())


def _some_of(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), *rows]
    width = [max(len(line[place]) for line in lines) for place in range(len(head))]

    def said(line: Sequence[str]) -> str:
        others = [text.rjust(w) for text, w in zip(line[1:], width[1:], strict=True)]
        return "  " + "  ".join([line[0].ljust(width[0]), *others]).rstrip()

    return "\n".join([one_line(title), *map(said, lines)])


class StudyDisplay:
    """Prints a line for every cell that ends.

    Args:
        total: Number of cells of the study.
        done: Number of them that had ended before.
        began: Start of the command, in seconds on the monotonic clock.
    """

    def __init__(self, total: int, done: int, began: float) -> None:
        self.total, self.done, self.began = total, done, began

    def __call__(self, cell: Cell, said: Mapping[str, Any]) -> None:
        """Show one message of a worker."""
        if not said.get("ended"):
            return
        self.done += 1
        how = f"failed: {one_line(said['error'])}" if said["error"] else "finished"
        line = f"{self.done:4d} of {self.total}  {cell.name}  {how}; {said['left']}"
        print(f"{time.monotonic() - self.began:7.1f} s  {line}", flush=True)
