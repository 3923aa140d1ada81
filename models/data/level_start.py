"""Start of a campaign with levels: the designs of its initial sequence, and the levels at which each is run."""

from collections.abc import Sequence


def nested_start(n: int, costs: Sequence[float]) -> tuple[tuple[int, int | None], ...]:
    """Places of the start, in their order: number of a design of the initial sequence, and level of its run.

    The designs are nested: those of a finer level are the first of those of a coarser one (Le Gratiet, 2013).

    Args:
        n: Number of designs that the target runs, >= 1.
        costs: Expected cost of each level, rising, as shares of the target's; empty where there are no levels.

    Returns:
        Pairs (design, level), the cheapest level first; level None is the target.
    """
    coarse = [(design, level) for level in range(len(costs)) for design in range(n)]
    return (*coarse, *((design, None) for design in range(n)))
