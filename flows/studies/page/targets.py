"""Shares of COCO's targets that algorithms have reached: cells of ``benchmarks/coco.py`` as a table."""

from collections.abc import Mapping
from math import sqrt
from statistics import mean, stdev

GROUPS = {
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multi-modal": range(15, 20),
    "weak structure": range(20, 25),
}
"""COCO's groups of its 24 functions."""
TARGETS = 51
"""Targets of a function."""
EACH = 10
"""Evaluations for each variable."""


def shares(cells: Mapping[str, int], algorithm: str, dimension: int) -> tuple[list[float | None], int]:
    """Mean share of the targets that an algorithm has reached, of each group and of all; and its campaigns.

    Args:
        cells: Targets reached, by "ALGORITHM DIMENSION FUNCTION SEED".
        algorithm: The algorithm.
        dimension: Number of variables.
    """
    found: dict[int, list[int]] = {}
    for (function, _), reached in _campaigns(cells, algorithm, dimension).items():
        found.setdefault(function, []).append(reached)
    told: list[float | None] = []
    for group in (*GROUPS.values(), range(1, 25)):
        own = [reached / TARGETS for function in group for reached in found.get(function, [])]
        told.append(sum(own) / len(own) if own else None)
    return told, sum(map(len, found.values()))


def ahead(cells: Mapping[str, int], algorithm: str, rival: str, dimension: int) -> tuple[float, float] | None:
    """Mean difference of the shares that two algorithms have reached, paired by function and seed; its standard error.

    None where they share fewer than two campaigns.

    Args:
        cells: Targets reached, by "ALGORITHM DIMENSION FUNCTION SEED".
        algorithm: The algorithm that is ahead where the difference is positive.
        rival: The other one.
        dimension: Number of variables.
    """
    own, others = _campaigns(cells, algorithm, dimension), _campaigns(cells, rival, dimension)
    gains = [(reached - others[pair]) / TARGETS for pair, reached in own.items() if pair in others]
    return (mean(gains), stdev(gains) / sqrt(len(gains))) if len(gains) > 1 else None


def _campaigns(cells: Mapping[str, int], algorithm: str, dimension: int) -> dict[tuple[int, int], int]:
    """Targets that an algorithm has reached, by function and seed."""
    found = {}
    for key, reached in cells.items():
        name, d, function, seed = key.split()
        if (name, int(d)) == (algorithm, dimension):
            found[int(function), int(seed)] = reached
    return found


def algorithms_of(cells: Mapping[str, int]) -> dict[int, list[str]]:
    """Algorithms that were run, by dimension, in the order of their cells."""
    found: dict[int, dict[str, None]] = {}
    for key in cells:
        name, d, _, _ = key.split()
        found.setdefault(int(d), {})[name] = None
    return {d: list(found[d]) for d in sorted(found)}
