"""Sizes of a campaign at which dear things are computed anew, and some of its trials that stand for all.

A fit at n trials may begin at the fit to the first ``milestone(n)`` of them, or keep it. It is then a function of the
trials and not of the process's history: a campaign that was killed computes the same numbers again, bit for bit. That a
process remembers such fits only saves the time.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fieldcraft.models.data.scaling import deviation
from fieldcraft.models.observations import Array, Observations

# Spread of the results up to a milestone, as a share of that of all, below which they say nothing of all: the spread
# of 50 becomes so small where one result is 700 of it away from them.
_DWARFED = 1e-2
EVERY_TRIAL_TO = 50
"""Size up to which each trial is a milestone."""


@dataclass(frozen=True)
class ByDigest:
    """Trials as an argument of a function whose results are kept (``functools.lru_cache``): their digest tells them.

    Args:
        digest: Digest of the trials.
        data: The trials.
    """

    digest: str
    data: Observations = field(compare=False, repr=False)

    @classmethod
    def of(cls, data: Observations) -> "ByDigest":
        """These trials."""
        return cls(data.digest, data)


def beginning(data: Observations) -> Observations:
    """The results up to the last milestone, scaled by themselves; all of them if those are constant."""
    first = data.first(milestone(len(data)))
    return data.first(len(data)) if first.constant else first


def representative(data: Observations) -> Observations:
    """``beginning`` for hyper-parameters that are kept as they are; all results where later ones dwarf the first.

    Sizes and noise of the first are then those of rounding beside the later ones, and no function that has them could
    be near both.
    """
    first = beginning(data)
    return data.first(len(data)) if first.scaling.sd < _DWARFED * data.scaling.sd else first


def milestone(n: int, every: int = EVERY_TRIAL_TO) -> int:
    """The largest milestone that is no larger than n: n itself up to ``every``, then each size larger by a tenth."""
    size = min(n, every)
    while n > every and _grown(size) <= n:
        size = _grown(size)
    return size


def thinned(n: int, most: int) -> NDArray[np.intp]:
    """Indices of ``most`` of n trials, evenly spaced from the first to the last; of all where there are no more."""
    found: NDArray[np.intp] = np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))
    return found


def asked(data: Observations, most: int) -> NDArray[np.intp]:
    """Indices of ``most`` of the trials to which hyper-parameters are fitted, ``thinned``.

    Where a result is over a hundred of their spreads away from them, they are evenly spaced in the order of the
    results: the least and the largest are then among them.
    """
    rows = thinned(len(data), most)
    some = data.y[rows]
    middle = math.fsum(some / len(some))
    if data.constant or deviation(some, middle) >= _DWARFED * np.abs(data.y - middle).max():
        return rows
    return np.sort(np.argsort(data.y, kind="stable")[rows])


def telling(targets: Array, most: int = 400) -> NDArray[np.intp]:
    """Indices of at most so many trials for a first look at many points: the best half of them, the last, and others.

    Among the last are those that are read at their mean.

    Args:
        targets: Results to be minimised, shape (n,).
        most: Their number, at least 4.
    """
    n, quarter = len(targets), most // 4
    if n <= most:
        return np.arange(n)
    best = np.argsort(targets, kind="stable")[: 2 * quarter]
    return np.unique(np.concatenate([best, np.arange(n - quarter, n), thinned(n, quarter)]))


def _grown(size: int) -> int:
    """The size that is at least 10% larger, in integer arithmetic: 1.1 * 50 is not 55 in floating point."""
    return -(-11 * size // 10)
