"""Results of a study so far, as data: regret curves, tables, tests, ranks, and the cells that were not reached.

The regret after n trials is the distance from the optimum to the true value, without noise, of the design with the best
result so far, as if the campaign had stopped there. ``visited`` is the same for the truly best design so far. If a
problem's optimum is not known, the best true value of the whole study is used. A problem whose equation was computed
from the objective itself (``oracle``) counts neither for ranks nor for tests. Ranks and tests use on each problem only
the seeds that every algorithm with a result there has finished. On a problem with constraints one of the metrics of
``flows.studies.scoring.violation``, the study's, takes the place of the regret. A mean over campaigns of which one has
no value (no feasible design) is infinite: such algorithms share the last rank and have no test.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fieldcraft.flows.spec.campaign_file import differing
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import Cell, Metric, StudyProblem, StudySpec, cells_of
from fieldcraft.flows.studies.scoring.certificates import proof_of
from fieldcraft.flows.studies.scoring.tests_and_ranks import (
    adjusted,
    curve,
    mean_ranks,
    or_infinite,
    or_none,
    ranks,
    smaller,
    summary,
)
from fieldcraft.flows.studies.scoring.violation import constrained_row, spreads_of, with_violations
from fieldcraft.storage.records import canonical

SHARE = 0.01  # of the objective's range: when a campaign has arrived

Found = dict[str, Any]
Regrets = Sequence[float | None]


def results(study: StudySpec, folder: StudyFolder, reason: str | None) -> dict[str, Any]:
    """The study as JSON data.

    Args:
        study: The study.
        folder: Its files.
        reason: Reason why cells that neither ended nor failed were not reached; None where it is not known yet.
    """
    cells = [_cell(cell, folder, reason) for cell in cells_of(study)]
    problems = [
        _problem(study, problem, [cell for cell in cells if cell["problem"] == problem.name])
        for problem in study.problems
    ]
    _adjust(problems)
    means = {
        each["problem"]: {row["algorithm"]: or_infinite(row["shared_mean"]) for row in each["rows"]}
        for each in problems
        if each["seeds"] and not each["oracle"]
    }
    environment, elsewhere = _environments(cells)
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
        "environment": environment,
        "elsewhere": elsewhere,
    }


_KEPT = (
    *("cell", "problem", "algorithm", "seed", "state", "reason", "cpu", "cpu_per_proposal", "physics"),
    *("regret", "visited", "arrived", "final_regret", "final_visited", "best_design", "digest", "sentence"),
    *("metrics", "feasible_trials", "first_feasible", "violations", "unscaled"),
)


def _environments(cells: Sequence[Found]) -> tuple[Found, dict[str, str]]:
    """The environment in which most campaigns were begun, and by cell the differences of any other one."""
    found = {cell["cell"]: cell.get("environment", {}) for cell in cells if cell["state"] == "finished"}
    texts = {name: canonical(environment) for name, environment in found.items()}
    if not found:
        return {}, {}
    (most, _), *_ = Counter(texts.values()).most_common(1)
    usual = next(found[name] for name, text in texts.items() if text == most)
    return usual, {name: "; ".join(differing(usual, found[name])) for name, text in texts.items() if text != most}


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
    if (
        found
        and "earlier" not in found
        and all(trial.get("outputs", trial["true"]) is None for trial in found["trials"])
    ):
        why = found.get("fruitless") or "it ended without an accepted and feasible result"  # older cells do not say
        return {**about, "state": "failed", "reason": f"no result: {why}"}
    if found:
        return {**found, **about, "state": "finished"}
    if failure:
        return {**about, "state": "failed", "reason": failure}
    return {**about, "state": "begun" if spent else "not reached", "reason": reason}


def _problem(study: StudySpec, problem: StudyProblem, cells: Sequence[Found]) -> dict[str, Any]:
    done = [cell for cell in cells if cell["state"] == "finished"]
    first = done[0] if done else dict.fromkeys(_OF_PROBLEM)
    best = first["optimum"] if first["optimum"] is not None else _best(done)
    spreads = spreads_of(done) if "constraints" in first else None
    metric = study.constrained_metric if spreads else None
    if best is None:  # nothing feasible in the whole study, and no optimum known: there is no regret
        done = []
    else:
        for cell in done:
            cell |= with_regrets(cell, best) | (with_violations(cell, best, spreads) if spreads else {})
    rows = [
        row
        for algorithm in study.on(problem)
        if (row := _row(algorithm.name, [cell for cell in done if cell["algorithm"] == algorithm.name], metric))
    ]
    seeds = _compared(rows, study.tested, oracle=bool(first["oracle"]))
    return {
        "problem": problem.name,
        "kind": problem.problem.kind,
        "sense": sense_of(problem, first),
        "trials": problem.budget.trials,
        "start": problem.start.n,
        **{key: first[key] for key in _OF_PROBLEM},
        "optimum": best,
        "optimum_known": first["optimum"] is not None,
        "seeds": seeds,
        "rows": sorted(rows, key=lambda row: or_infinite(row["shared_mean"] if seeds else row["mean"])),
        **({"metric": metric, "constraints": first["constraints"], "spreads": spreads.listed} if spreads else {}),
        **({"constraint_noise": noise.of_sd} if (noise := problem.noise) and noise.constraints else {}),
    }


def sense_of(problem: StudyProblem, cell: Mapping[str, Any]) -> str | None:
    """Sense of a problem's only objective; None for several. A distance from a target states none: a cell knows it."""
    return problem.sense or ("minimize" if cell.get("maximize") is False else None)


_OF_PROBLEM = ("objective", "unit", "noise_sd", "range", "optimum", "oracle")


def _compared(rows: Sequence[dict[str, Any]], reference: str, *, oracle: bool) -> list[int]:
    """Add ranks, and p values of the reference being better; no p values where the equation gave the answer away.

    Returns:
        The seeds behind them: those finished by all the algorithms. Without one there is no rank and no test.
    """
    by_seed = {row["algorithm"]: dict(zip(row["seeds"], map(or_infinite, row["regrets"]), strict=True)) for row in rows}
    seeds = sorted(set.intersection(*map(set, by_seed.values()))) if rows else []
    shared = {name: [regrets[seed] for seed in seeds] for name, regrets in by_seed.items()}
    means = {name: float(np.mean(regrets)) for name, regrets in shared.items() if seeds}
    placed = ranks(means)
    for row in rows:
        name = row["algorithm"]
        row["shared_mean"], row["rank"] = or_none(means.get(name, np.inf)), placed.get(name)
        tested = not oracle and name != reference and reference in shared
        row["p"] = smaller(shared[reference], shared[name]) if tested else None
    return seeds


def _best(cells: Sequence[Found]) -> float | None:
    true = [trial["true"] for cell in cells for trial in cell["trials"] if trial["true"] is not None]
    true += [cell["earlier"]["best"] for cell in cells if "earlier" in cell]
    return None if not true else (max if cells[0]["maximize"] else min)(true)


def with_regrets(cell: Found, best: float) -> Found:
    """A finished cell with its ``regret`` and ``visited`` after each trial, and the trial of its arrival."""
    sign = 1.0 if cell["maximize"] else -1.0
    if "earlier" in cell:
        farther = sign * (best - cell["earlier"]["best"])
        return _told(cell, _moved(cell["regret"], farther), _moved(cell["visited"], farther), cell["best_design"])
    chosen, nearest, regret, visited = None, np.inf, list[float | None](), list[float | None]()
    for trial in cell["trials"]:
        if trial["true"] is not None:
            if chosen is None or sign * trial["reading"] > sign * chosen["reading"]:
                chosen = trial
            nearest = min(nearest, sign * (best - trial["true"]))
        regret.append(None if chosen is None else sign * (best - chosen["true"]))
        visited.append(None if chosen is None else float(nearest))
    return _told(cell, regret, visited, chosen and chosen["design"])


def _moved(path: Regrets, farther: float) -> Regrets:
    return [None if regret is None else regret + farther for regret in path]


def _told(cell: Found, regret: Regrets, visited: Regrets, best_design: Found | None) -> Found:
    return {
        **cell,
        "regret": regret,
        "visited": visited,
        "arrived": _arrival(visited, cell["range"]),
        "final_regret": regret[-1] if regret else None,
        "final_visited": visited[-1] if visited else None,
        "best_design": best_design,
    }


def _arrival(visited: Sequence[float | None], width: float | None) -> int | None:
    """Number of the first trial whose regret is at most 1% of the objective's range; None where there is none."""
    near = [n for n, value in enumerate(visited, 1) if width and value is not None and value <= SHARE * width]
    return near[0] if near else None


def _row(algorithm: str, cells: Sequence[Found], metric: Metric | None) -> dict[str, Any] | None:
    """An algorithm's line in a problem's table; None where no campaign of it finished.

    Args:
        algorithm: Its label.
        cells: Its finished campaigns there.
        metric: Metric of the comparison where the problem has constraints; None for the regret.
    """
    if not cells:
        return None
    paths = [cell["paths"][metric] if metric else cell["regret"] for cell in cells]
    finals, arrived = [or_infinite(path[-1]) for path in paths], [cell["arrived"] for cell in cells]
    costs = [cell["cpu_per_proposal"] for cell in cells if cell["cpu_per_proposal"] is not None]
    found = summary(finals)
    return {
        "algorithm": algorithm,
        "sentence": cells[0]["sentence"],
        "physics": cells[0]["physics"],
        "n": found.n,
        "mean": found.mean,
        "error": found.error,
        "median": found.median,
        "normality": found.normality,
        "visited": or_none(float(np.mean([or_infinite(cell["final_visited"]) for cell in cells]))),
        "arrived": sum(place is not None for place in arrived) if cells[0]["range"] is not None else None,
        "arrived_median": _median(arrived),
        "cpu_per_proposal": float(np.median(costs)) if costs else None,
        "seeds": [cell["seed"] for cell in cells],
        "regrets": [or_none(value) for value in finals],
        "curve": curve(paths),
        **({"constrained": constrained_row(cells)} if metric else {}),
        "proof": proof_of([each for cell in cells for each in cell.get("acquired", ())]),  # older cells have none
    }


def _median(arrived: Sequence[int | None]) -> float | None:
    """Median number of trials until arrival; None if infinite, as it counts for campaigns that never arrived."""
    middle = float(np.median([np.inf if place is None else place for place in arrived]))
    return middle if np.isfinite(middle) else None


def _adjust(problems: Sequence[Mapping[str, Any]]) -> None:
    """Adjust the p values of all problems together, as one family."""
    rows = [row for each in problems for row in each["rows"]]
    for row, q in zip(rows, adjusted([row["p"] for row in rows]), strict=True):
        row["q"] = q
