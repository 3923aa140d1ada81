"""Start of a campaign with levels: how many designs of its initial sequence are run at each."""

import math
from collections.abc import Mapping, Sequence


def nested_start(n: int, costs: Sequence[float]) -> Mapping[int | None, int]:
    """Number of designs that the start runs at each level, in the order in which they are proposed.

    Each level runs the first designs of the initial sequence, so that those of a finer level are among those of a
    coarser one (nested designs: Le Gratiet, 2013). The target runs a quarter of the sequence, at least two designs, and
    the levels between take equal steps of the logarithm.

    Args:
        n: Length of the initial sequence, >= 1: the designs of the cheapest level, or of the target without levels.
        costs: Expected cost of each level, rising, as shares of the target's; empty where there are no levels.

    Returns:
        Numbers by level, the cheapest first and the target, None, last.
    """
    last = max(min(n, 2), math.ceil(n / 4)) if costs else n
    found: dict[int | None, int] = {}
    for level in range(len(costs)):
        found[level] = math.ceil(n * (last / n) ** (level / len(costs)))
    return {**found, None: last}
