"""Verdicts on a paper's claims from stored results: pairs of a method and a baseline on a problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcraft.flows.studies.plan.claims import Compared, Solvers
from fieldcraft.flows.studies.scoring.tests_and_ranks import adjusted, or_infinite, smaller

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Pair:
    """A method against a baseline on a problem, over the seeds that both have finished.

    Args:
        problem: The problem.
        baseline: The baseline.
        better: True if the method's mean regret is smaller, by more than rounding.
        equal: True if the means are equal up to rounding.
        p: p value of Welch's t-test that it is smaller; None for fewer than two seeds.
        p_worse: The same that it is larger.
    """

    problem: str
    baseline: str
    better: bool
    equal: bool
    p: float | None
    p_worse: float | None


@dataclass(frozen=True)
class Verdict:
    """Verdict of the pairs of one method on a claim.

    Args:
        pairs: Number of pairs that were measured.
        planned: Number of pairs that the claim is about.
        better: Pairs in which the method has the smaller mean.
        equal: Pairs in which the means are equal.
        clearly: Those of them that are significant after Benjamini and Hochberg's correction over all pairs.
        clearly_worse: Significant pairs the other way.
    """

    pairs: int
    planned: int
    better: int
    equal: int
    clearly: int
    clearly_worse: int

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.pairs == 0:
            return "not measured yet"
        whole = self.pairs == self.planned
        so_far, part = ("", "") if whole else (" so far", f" ({self.planned} are planned)")
        equal = f", equal in {self.equal}" if self.equal else ""
        return (
            f"{self._head}{so_far}: better in {self.better} of {self.pairs} comparisons{part}{equal}, "
            f"significantly in {self.clearly}; significantly worse in {self.clearly_worse}"
        )

    @property
    def _head(self) -> str:
        if self.equal == self.pairs:
            return "makes no difference"
        if self.better + self.equal == self.pairs:
            return "holds" if self.clearly else "holds, by the means alone"
        if self.better:
            return "holds in part" if self.clearly else "holds in part, by the means alone"
        return "does not hold" if self.clearly_worse else "does not hold, by the means alone"


def rows_of(study: Mapping[str, Any] | None, problem: str) -> dict[str, Any]:
    """The rows of a study's results on a problem, by algorithm; none without results."""
    problems = [] if study is None else study["problems"]
    return {row["algorithm"]: row for each in problems if each["problem"] == problem for row in each["rows"]}


def pairs_of(method: str, about: Compared, study: Mapping[str, Any] | None) -> list[Pair]:
    """The measured pairs of a method.

    Args:
        method: Its label.
        about: Problems and baselines.
        study: Results of the study; None if it has none.
    """
    found = []
    for problem in about.problems:
        rows = rows_of(study, problem)
        for baseline in about.baselines:
            if method not in rows or baseline not in rows:
                continue
            own, other = (
                dict(zip(rows[name]["seeds"], rows[name]["regrets"], strict=True)) for name in (method, baseline)
            )
            seeds = sorted(own.keys() & other.keys())
            if not seeds:
                continue
            a, b = ([or_infinite(regrets[seed]) for seed in seeds] for regrets in (own, other))
            means = float(np.mean(a)), float(np.mean(b))
            equal = bool(np.isclose(*means, rtol=1e-9, atol=0))
            better = means[0] < means[1] and not equal
            found.append(Pair(problem, baseline, better, equal, smaller(a, b), smaller(b, a)))
    return found


def verdict_of(method: str, about: Compared, study: Mapping[str, Any] | None) -> Verdict:
    """The verdict on a method (see ``pairs_of``)."""
    pairs = pairs_of(method, about, study)
    clearly, worse = (
        sum(q is not None and q <= SIGNIFICANT for q in adjusted(p_values))
        for p_values in ([pair.p for pair in pairs], [pair.p_worse for pair in pairs])
    )
    planned = len(about.problems) * len(about.baselines)
    better, equal = sum(pair.better for pair in pairs), sum(pair.equal for pair in pairs)
    return Verdict(len(pairs), planned, better, equal, clearly, worse)


def misses_of(method: str, about: Solvers, rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Optima of acquisitions that a solver missed, and how many it was given.

    Only sizes (variables and trials) of the dimensions that count on which ``about.method`` was run.
    """

    def sizes(name: str) -> dict[tuple[int, int], list[Mapping[str, Any]]]:
        found: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["method"] == name and row["d"] in about.dimensions:
                found.setdefault((row["d"], row["n"]), []).append(row)
        return found

    common = sizes(about.method).keys()
    own = [row for size, there in sizes(method).items() if size in common for row in there]
    return sum(row["misses"] for row in own), sum(len(row["outcomes"]["cpu_s"]) for row in own)


def accelerations(study: Mapping[str, Any], baseline: str = "random") -> dict[str, dict[str, float | None]]:
    """Ratio of random search's trials to an algorithm's until its last mean regret, by algorithm and problem.

    Trials of the start count. None where the algorithm never got there. Only problems where both have finished.
    """
    found: dict[str, dict[str, float | None]] = {}
    for each in study["problems"]:
        rows = rows_of(study, each["problem"])
        if baseline not in rows or each["oracle"] or not rows[baseline]["curve"]["mean"]:
            continue
        reference = rows[baseline]["curve"]["mean"]
        target = reference[-1]
        for name, row in rows.items():
            if name != baseline and target is not None:
                path = row["curve"]["mean"]
                first = next((n for n, value in enumerate(path, 1) if value is not None and value <= target), None)
                found.setdefault(name, {})[each["problem"]] = None if first is None else len(reference) / first
    return found


def hours_left(study: Mapping[str, Any]) -> dict[str, tuple[int, float | None]]:
    """Cells of each problem that have neither ended nor failed, and their core-hours by what others cost a trial.

    A cell is taken to cost what the ended ones of its algorithm on its problem did, a trial; else those of its problem,
    or of its algorithm, or all. None where no cell has ended.
    """
    trials = {each["problem"]: each["trials"] for each in study["problems"]}
    known: dict[tuple[str | None, str | None], list[float]] = {}
    for cell in study["cells"]:
        if cell["state"] == "finished":
            for key in _keys(cell):
                known.setdefault(key, []).append(cell["cpu"] / trials[cell["problem"]])
    found: dict[str, tuple[int, float | None]] = {}
    for cell in study["cells"]:
        if cell["state"] in ("begun", "not reached"):
            count, hours = found.get(cell["problem"], (0, 0.0))
            costs = next((known[key] for key in _keys(cell) if key in known), None)
            more = None if costs is None or hours is None else hours + np.mean(costs) * trials[cell["problem"]] / 3600
            found[cell["problem"]] = count + 1, None if more is None else float(more)
    return found


def _keys(cell: Mapping[str, Any]) -> tuple[tuple[str | None, str | None], ...]:
    problem, algorithm = cell["problem"], cell["algorithm"]
    return (problem, algorithm), (problem, None), (None, algorithm), (None, None)
