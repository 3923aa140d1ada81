"""Start of a campaign with levels: how many designs of its initial sequence are run at each."""

from collections.abc import Mapping, Sequence


def nested_start(n: int, costs: Sequence[float]) -> Mapping[int | None, int]:
    """Number of designs that the start runs at each level, in the order in which they are proposed.

    Each level runs the first designs of the initial sequence, so that those of a finer level are among those of a
    coarser one (nested designs: Le Gratiet, 2013).

    Args:
        n: Number of designs that the target runs, >= 1.
        costs: Expected cost of each level, rising, as shares of the target's; empty where there are no levels.

    Returns:
        Numbers by level, the cheapest first and the target, None, last.
    """
    return {**dict.fromkeys(range(len(costs)), n), None: n}
