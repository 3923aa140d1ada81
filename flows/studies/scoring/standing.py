"""Standing of one algorithm against the optimisers of others, over all problems of all studies."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from fieldcraft.flows.studies.plan.claims import Compared
from fieldcraft.flows.studies.scoring.tests_and_ranks import adjusted, or_infinite
from fieldcraft.flows.studies.scoring.verdicts import Pair, pairs_of, rows_of

ALIKE = ("problem", "kind", "objective", "sense", "trials", "start", "noise_sd", "constraint_noise", "optimum")
"""What two studies that ran a problem alike say of it."""
ERRORS = 2.0
"""Standard errors by which a mean regret must be larger than another to count as behind it."""


@dataclass(frozen=True)
class Standing:
    """An algorithm against one rival, by the mean regrets over the seeds that both have finished.

    Args:
        rival: The rival.
        better: Problems on which the algorithm's mean is smaller.
        equal: Problems on which the means are equal up to rounding.
        worse: Problems on which it is larger.
        q: p value of the one-sided sign test that it is smaller more often than not, over the problems where the means
            differ, after Benjamini and Hochberg's correction over all rivals; None where they differ nowhere.
    """

    rival: str
    better: int
    equal: int
    worse: int
    q: float | None


@dataclass(frozen=True)
class Behind:
    """A problem on which a rival's mean regret is smaller by more than ``ERRORS`` standard errors of the difference.

    Over the seeds that both have finished. A difference by rounding is none.

    Args:
        study: The study.
        problem: The problem.
        best: The rival with the smallest mean.
        own: Mean regret of the algorithm; infinite where a seed has no feasible design.
        other: Mean regret of that rival.
        error: Standard error of their difference; None for one seed, or an infinite mean: then any difference counts.
        last: True if no rival's mean is larger.
    """

    study: str
    problem: str
    best: str
    own: float
    other: float
    error: float | None
    last: bool


def standings(method: str, rivals: Collection[str], studies: Mapping[str, Any]) -> list[Standing]:
    """The standing against each rival that was run beside the algorithm, the most problems first.

    Problems whose equation was computed from the objective are left out. One that several studies ran alike counts once
    for each rival: of the study that has the most seeds of both, of several such of the one with the most rivals, or
    else of the first of these.

    Args:
        method: Label of the algorithm.
        rivals: Labels of the rivals.
        studies: Results of studies by name.
    """
    counts = []
    for rival in sorted(rivals):
        if own := _pairs(method, rival, rivals, studies):
            better, equal = sum(pair.better for pair in own), sum(pair.equal for pair in own)
            counts.append((rival, better, equal, len(own) - better - equal))
    p_values = [
        float(stats.binomtest(better, better + worse, alternative="greater").pvalue) if better + worse else None
        for _, better, _, worse in counts
    ]
    found = [Standing(*each, q) for each, q in zip(counts, adjusted(p_values), strict=True)]
    return sorted(found, key=lambda each: (-each.better - each.equal - each.worse, each.rival))


def _pairs(method: str, rival: str, rivals: Collection[str], studies: Mapping[str, Any]) -> list[Pair]:
    """The algorithm beside one rival, on each problem once."""

    def held(rows: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        return _shared(method, rival, rows), len(rows.keys() & rivals)

    return [
        pair
        for name, problems in _told(studies, held).items()
        for pair in pairs_of(
            method,
            Compared(study=name, methods=(method,), baselines=(rival,), problems=tuple(problems)),
            studies[name],
        )
    ]


def behind(method: str, rivals: Collection[str], studies: Mapping[str, Any]) -> list[Behind]:
    """The problems on which the algorithm is behind the best of the rivals.

    Those of ``standings``; one that several studies ran alike is told of the study that has the most rivals, of several
    such of the one with the most seeds.
    """

    def held(rows: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        shared = [count for rival in rivals if (count := _shared(method, rival, rows))]
        return len(shared), max(shared, default=0)

    return [
        found
        for name, problems in _told(studies, held).items()
        for problem in problems
        for found in _behind(method, rivals, name, problem, rows_of(studies[name], problem))
    ]


def _behind(
    method: str, rivals: Collection[str], name: str, problem: str, rows: Mapping[str, Mapping[str, Any]]
) -> Iterator[Behind]:
    found = [
        (float(np.mean(other)), rival, float(np.mean(own)), _error(own, other))
        for rival in rivals
        if method in rows and rival in rows
        for own, other in [_common(rows[method], rows[rival])]
        if own
    ]
    if not found:
        return
    best, rival, own, error = min(found, key=lambda one: one[:2])
    apart = own > best + ERRORS * (error or 0.0)
    if apart and not np.isclose(own, best, rtol=1e-9, atol=0):
        last = all(mean >= other for other, _, mean, _ in found)
        yield Behind(name, problem, rival, own, best, error, last)


def _shared(method: str, rival: str, rows: Mapping[str, Mapping[str, Any]]) -> int:
    """Number of seeds that both have finished."""
    return len(_common(rows[method], rows[rival])[0]) if method in rows and rival in rows else 0


def _common(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Regrets of two rows at the seeds that both have."""
    mine, theirs = (dict(zip(row["seeds"], map(or_infinite, row["regrets"]), strict=True)) for row in (own, other))
    seeds = sorted(mine.keys() & theirs.keys())
    return [mine[seed] for seed in seeds], [theirs[seed] for seed in seeds]


def _error(a: list[float], b: list[float]) -> float | None:
    """Standard error of the difference of two means; None for one seed, or where either is infinite."""
    if len(a) < 2 or not np.isfinite([*a, *b]).all():
        return None
    return float(np.hypot(*(np.std(each, ddof=1) / len(each) ** 0.5 for each in (a, b))))


def _told(studies: Mapping[str, Any], held: Callable[[Any], tuple[int, int]]) -> dict[str, list[str]]:
    """The problems that are told of each study: of several that ran one alike, of the one that ``held`` rates highest.

    A study whose rows are rated 0 first is told of nothing.
    """
    most: dict[tuple[Any, ...], tuple[tuple[int, int], str, str]] = {}
    for name, study in studies.items():
        for each in study["problems"]:
            rate = (0, 0) if each["oracle"] else held(rows_of(study, each["problem"]))
            alike = tuple(f"{said:.9g}" if isinstance(said := each.get(key), float) else said for key in ALIKE)
            if rate[0] and (alike not in most or rate > most[alike][0]):
                most[alike] = (rate, name, each["problem"])
    told: dict[str, list[str]] = {}
    for _, name, problem in most.values():
        told.setdefault(name, []).append(problem)
    return told
