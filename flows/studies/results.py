"""What a study found so far, as data: regret curves, tables, tests, ranks, and the cells that were not reached.

The regret after n trials is the distance from the optimum to the true value, without noise, of the design with the
best reading so far: what whoever stopped then would have got. ``visited`` is the same for the truly best design so far.
Where a problem's optimum is not known, the best true value of the whole study stands for it. A problem whose equation
was computed from the objective itself (``oracle``) counts neither for ranks nor for tests.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.studies.folder import StudyFolder
from flows.studies.inference import adjusted, curve, mean_ranks, ranks, smaller, summary
from flows.studies.spec import Cell, StudyProblem, StudySpec, cells_of

SHARE = 0.01  # of the objective's range: when a campaign has arrived

Found = dict[str, Any]


def results(study: StudySpec, folder: StudyFolder, reason: str | None) -> dict[str, Any]:
    """The study as JSON data.

    Args:
        study: What was to be done.
        folder: What was done.
        reason: Why cells that neither ended nor failed were not reached; None where it is not known yet.
    """
    cells = [_cell(cell, folder, reason) for cell in cells_of(study)]
    problems = [
        _problem(study, problem, [cell for cell in cells if cell["problem"] == problem.name])
        for problem in study.problems
    ]
    _adjust(problems)
    means = {
        each["problem"]: {row["algorithm"]: row["mean"] for row in each["rows"]}
        for each in problems
        if each["rows"] and not each["oracle"]
    }
    return {
        "study": study.name,
        "reference": study.tested,
        "spec": study.model_dump(mode="json", exclude_none=True),
        "cells": [{key: cell[key] for key in _KEPT if key in cell} for cell in cells],
        "problems": problems,
        "ranks": mean_ranks(means),
        "tests": sum(row["p"] is not None for each in problems for row in each["rows"]),
        "cpu_seconds": round(sum(cell["cpu"] for cell in cells), 3),
        "limit_core_hours": study.limit and study.limit.core_hours,
    }


_KEPT = (
    *("cell", "problem", "algorithm", "seed", "state", "reason", "cpu", "cpu_per_proposal", "physics"),
    *("regret", "visited", "arrived", "final_regret", "final_visited", "best_design", "digest", "sentence"),
)


def _cell(cell: Cell, folder: StudyFolder, reason: str | None) -> Found:
    spent, failure, found = folder.spent(cell), folder.failure(cell), folder.result(cell)
    proposed = sum(line["proposed"] for line in spent)
    about = {
        "cell": cell.name,
        "problem": cell.problem.name,
        "algorithm": cell.algorithm.name,
        "seed": cell.seed,
        "cpu": round(sum(line["cpu"] for line in spent), 3),
        "cpu_per_proposal": sum(line["proposing"] for line in spent) / proposed if proposed else None,
    }
    if found:
        return {**found, **about, "state": "finished"}
    if failure:
        return {**about, "state": "failed", "reason": failure}
    return {**about, "state": "begun" if spent else "not reached", "reason": reason}


def _problem(study: StudySpec, problem: StudyProblem, cells: Sequence[Found]) -> dict[str, Any]:
    done = [cell for cell in cells if cell["state"] == "finished"]
    first = done[0] if done else dict.fromkeys(_OF_PROBLEM)
    best = first["optimum"] if first["optimum"] is not None else _best(done)
    if best is not None:
        for cell in done:
            cell |= with_regrets(cell, best)
    rows = [
        row
        for algorithm in study.on(problem)
        if (row := _row(algorithm.name, [cell for cell in done if cell["algorithm"] == algorithm.name])) is not None
    ]
    _compared(rows, study.tested, oracle=bool(first["oracle"]))
    return {
        "problem": problem.name,
        "kind": problem.problem.kind,
        "sense": problem.sense,
        "trials": problem.budget.trials,
        "start": problem.start.n,
        **{key: first[key] for key in _OF_PROBLEM},
        "optimum": best,
        "optimum_known": first["optimum"] is not None,
        "rows": sorted(rows, key=lambda row: float(row["mean"])),
    }


_OF_PROBLEM = ("objective", "unit", "noise_sd", "range", "optimum", "oracle")


def _compared(rows: Sequence[dict[str, Any]], reference: str, *, oracle: bool) -> None:
    """Add ranks, and p values of the reference's being better; none where an equation gave the answer away."""
    placed = ranks({row["algorithm"]: row["mean"] for row in rows})
    own: list[float] = next((row["regrets"] for row in rows if row["algorithm"] == reference), [])
    for row in rows:
        row["rank"] = placed[row["algorithm"]]
        row["p"] = None if oracle or row["algorithm"] == reference else smaller(own, row["regrets"])


def _best(cells: Sequence[Found]) -> float | None:
    true = [trial["true"] for cell in cells for trial in cell["trials"] if trial["true"] is not None]
    return None if not true else (max if cells[0]["maximize"] else min)(true)


def with_regrets(cell: Found, best: float) -> Found:
    """A finished cell with its regret after each trial, both ways, and when it arrived."""
    sign = 1.0 if cell["maximize"] else -1.0
    chosen, nearest, regret, visited = None, np.inf, list[float | None](), list[float | None]()
    for trial in cell["trials"]:
        if trial["true"] is not None:
            if chosen is None or sign * trial["reading"] > sign * chosen["reading"]:
                chosen = trial
            nearest = min(nearest, sign * (best - trial["true"]))
        regret.append(None if chosen is None else sign * (best - chosen["true"]))
        visited.append(None if chosen is None else float(nearest))
    return {
        **cell,
        "regret": regret,
        "visited": visited,
        "arrived": _arrival(visited, cell["range"]),
        "final_regret": regret[-1] if regret else None,
        "final_visited": visited[-1] if visited else None,
        "best_design": chosen and chosen["design"],
    }


def _arrival(visited: Sequence[float | None], width: float | None) -> int | None:
    """Number of the first trial within the share of the range that counts as arrived; None where there is none."""
    near = [n for n, value in enumerate(visited, 1) if width and value is not None and value <= SHARE * width]
    return near[0] if near else None


def _row(algorithm: str, cells: Sequence[Found]) -> dict[str, Any] | None:
    """An algorithm's line in a problem's table; None where no campaign of it ended with a reading."""
    able = [cell for cell in cells if cell.get("final_regret") is not None]
    if not able:
        return None
    found, arrived = summary([cell["final_regret"] for cell in able]), [cell["arrived"] for cell in able]
    costs = [cell["cpu_per_proposal"] for cell in able if cell["cpu_per_proposal"] is not None]
    return {
        "algorithm": algorithm,
        "sentence": able[0]["sentence"],
        "physics": able[0]["physics"],
        "n": found.n,
        "mean": found.mean,
        "error": found.error,
        "median": found.median,
        "normality": found.normality,
        "visited": float(np.mean([cell["final_visited"] for cell in able])),
        "arrived": sum(place is not None for place in arrived) if able[0]["range"] is not None else None,
        "arrived_median": _median(arrived),
        "cpu_per_proposal": float(np.median(costs)) if costs else None,
        "regrets": [cell["final_regret"] for cell in able],
        "curve": curve([cell["regret"] for cell in able]),
    }


def _median(arrived: Sequence[int | None]) -> float | None:
    """Median number of trials until arrival, campaigns that never did counting as later than any; None if it is one."""
    middle = float(np.median([np.inf if place is None else place for place in arrived]))
    return middle if np.isfinite(middle) else None


def _adjust(problems: Sequence[Mapping[str, Any]]) -> None:
    """Adjust the p values of all problems together: they are one family."""
    rows = [row for each in problems for row in each["rows"]]
    for row, q in zip(rows, adjusted([row["p"] for row in rows]), strict=True):
        row["q"] = q
