"""Statistics of regrets of several campaigns: means with errors, normality, one-sided tests, ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Summary:
    """The final regrets of an algorithm on a problem; a regret is infinite where no design had one.

    Args:
        n: Number of campaigns.
        mean: Their mean, in the objective's unit; None where one is infinite.
        error: Standard error of the mean; None without a mean, and for fewer than two.
        median: Their median; None where it is infinite.
        normality: p value of a Kolmogorov-Smirnov test of the standardised regrets against the normal distribution, as
            in the papers: mean and spread are estimated from the same few numbers, so it seldom rejects. None for
            fewer than three, or where all are equal.
    """

    n: int
    mean: float | None
    error: float | None
    median: float | None
    normality: float | None


def summary(values: Sequence[float]) -> Summary:
    """The summary of at least one regret."""
    x = np.asarray(values, dtype=float)
    whole = bool(np.isfinite(x).all())
    sd = float(x.std(ddof=1)) if whole and len(x) > 1 else None
    normality = None
    if len(x) > 2 and sd:
        normality = float(stats.kstest((x - x.mean()) / sd, "norm").pvalue)
    error = None if sd is None else sd / np.sqrt(len(x))
    return Summary(len(x), or_none(float(x.mean())), error, or_none(float(np.median(x))), normality)


def or_none(value: float) -> float | None:
    """Convert a number for JSON: None where it is infinite."""
    return value if np.isfinite(value) else None


def or_infinite(value: float | None) -> float:
    """Convert a number from JSON: infinite, and so worse than any other, where it is None."""
    return np.inf if value is None else value


def smaller(one: Sequence[float], other: Sequence[float]) -> float | None:
    """p value of Welch's t-test that the mean of ``one`` is smaller than that of ``other``.

    None for fewer than two values, no spread, or an infinite one.
    """
    a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if min(len(a), len(b)) < 2 or not np.isfinite([*a, *b]).all() or not (_varies(a) or _varies(b)):
        return None
    told = [moment for x in (a, b) for moment in (x.mean(), x.std(ddof=1), len(x))]
    return float(stats.ttest_ind_from_stats(*told, equal_var=False, alternative="less").pvalue)


def _varies(x: Array) -> bool:
    """True if values differ by more than rounding."""
    return bool(np.ptp(x) > _ROUNDING * np.abs(x).max())


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """p values adjusted for their number after Benjamini and Hochberg (1995); None where there is no test."""
    known = [p for p in p_values if p is not None]
    if not known:
        return list(p_values)
    found = iter(stats.false_discovery_control(known, method="bh"))
    return [None if p is None else float(next(found)) for p in p_values]


def ranks(means: Mapping[str, float]) -> dict[str, float]:
    """Ranks by mean regret from 1, the best; equal means, infinite ones too, share the mean of their ranks."""
    return dict(zip(means, map(float, stats.rankdata(list(means.values()))), strict=True)) if means else {}


def mean_ranks(by_problem: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean rank over problems of every algorithm that has a mean regret on all of them, ranked among those alone.

    Args:
        by_problem: Mean regrets by problem and algorithm.

    Returns:
        ``mean`` rank, ``ranks`` by problem, ``best`` and ``last`` (how often it was either) by algorithm, best first.
    """
    if not by_problem:
        return {}
    common = set.intersection(*(set(means) for means in by_problem.values()))
    ranked = {name: ranks({a: m for a, m in means.items() if a in common}) for name, means in by_problem.items()}
    found = {}
    for algorithm in sorted(common):
        own = {problem: ranks_there[algorithm] for problem, ranks_there in ranked.items()}
        found[algorithm] = {
            "mean": float(np.mean(list(own.values()))),
            "ranks": own,
            "best": sum(rank == min(ranked[problem].values()) for problem, rank in own.items()),
            "last": sum(rank == max(ranked[problem].values()) for problem, rank in own.items()),
        }
    return dict(sorted(found.items(), key=lambda item: (item[1]["mean"], item[0])))


def curve(regrets: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """Mean regret and standard error after each trial, None at trials by which a campaign has no result.

    Args:
        regrets: A campaign's regret after each of its trials, None before its first result; may differ in length.
    """
    longest = max(map(len, regrets), default=0)
    mean: list[float | None] = []
    error: list[float | None] = []
    for place in range(longest):
        known = [value for own in regrets if place < len(own) and (value := own[place]) is not None]
        whole = len(known) == len(regrets)  # a mean over other campaigns than the one before would jump
        mean.append(float(np.mean(known)) if whole else None)
        error.append(float(np.std(known, ddof=1) / np.sqrt(len(known))) if whole and len(known) > 1 else None)
    return {"mean": mean, "error": error}
