"""The trust region of TuRBO-1 (Eriksson et al., 2019), as it follows from the results in their order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

# The side of the region at first, at least and at most, and successes in a row that double it: BoTorch's tutorial.
_LENGTH, _LEAST, _MOST, _SUCCESSES = 0.8, 0.5**7, 1.6, 10
# By what share of the best result a better one counts as a success.
_GAIN = 1e-3


@dataclass(frozen=True)
class Region:
    """State of a trust region.

    Args:
        best: Greatest result of its run.
        length: Side of the region, where the cube's is 1.
        successes: Batches in a row that were better than the best before.
        failures: Batches in a row that were not.
    """

    best: float
    length: float = _LENGTH
    successes: int = 0
    failures: int = 0

    def after(self, batch: Sequence[float], tolerance: int) -> "Region":
        """The region after the results of a batch, which shrinks after ``tolerance`` failures in a row."""
        best = max(self.best, *batch)
        if max(batch) > self.best + _GAIN * abs(self.best):
            if self.successes + 1 == _SUCCESSES:
                return Region(best, min(2 * self.length, _MOST))
            return replace(self, best=best, successes=self.successes + 1, failures=0)
        if self.failures + 1 == tolerance:
            return Region(best, self.length / 2)
        return replace(self, best=best, successes=0, failures=self.failures + 1)


def present_run(results: Sequence[float], dimension: int, q: int) -> tuple[int, Region | None]:
    """Number of the first result of the present run, and its region; None while the run's start is not complete.

    Args:
        results: All results, to be maximised, in their order.
        dimension: Coordinates d of the cube; a run starts with 2 d results.
        q: Results of a batch.
    """
    start, tolerance = 0, math.ceil(max(4.0 / q, dimension / q))
    while (at := start + 2 * dimension) <= len(results):
        region = Region(max(results[start:at]))
        while region.length >= _LEAST and at < len(results):
            region = region.after(results[at : at + q], tolerance)
            at += q
        if region.length >= _LEAST:
            return start, region
        start = min(at, len(results))
    return start, None
