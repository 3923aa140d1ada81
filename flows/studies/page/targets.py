"""Shares of COCO's targets that algorithms have reached: cells of ``benchmarks/coco.py`` as a table."""

from collections.abc import Mapping

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
    for key, reached in cells.items():
        name, d, function, _ = key.split()
        if (name, int(d)) == (algorithm, dimension):
            found.setdefault(int(function), []).append(reached)
    told: list[float | None] = []
    for group in (*GROUPS.values(), range(1, 25)):
        own = [reached / TARGETS for function in group for reached in found.get(function, [])]
        told.append(sum(own) / len(own) if own else None)
    return told, sum(map(len, found.values()))


def algorithms_of(cells: Mapping[str, int]) -> dict[int, list[str]]:
    """Algorithms that were run, by dimension, in the order of their cells."""
    found: dict[int, dict[str, None]] = {}
    for key in cells:
        name, d, _, _ = key.split()
        found.setdefault(int(d), {})[name] = None
    return {d: list(found[d]) for d in sorted(found)}
