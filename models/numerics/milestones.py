"""Sizes of a campaign at which dear things are computed anew, and some of its trials that stand for all.

A fit at n trials may begin at the fit to the first ``milestone(n)`` of them, or keep it. It is then a function of the
trials and not of the process's history: a campaign that was killed computes the same numbers again, bit for bit. A
``Memo`` only saves the time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

EVERY_TRIAL_TO = 50
"""Size up to which each trial is a milestone."""

_TELLING = 400
_Answer = TypeVar("_Answer")
Array = NDArray[np.float64]


def milestone(n: int) -> int:
    """The largest milestone that is no larger than n: n itself up to 50, then each size larger by a tenth."""
    size = min(n, EVERY_TRIAL_TO)
    while n > EVERY_TRIAL_TO and _grown(size) <= n:
        size = _grown(size)
    return size


def thinned(n: int, most: int) -> NDArray[np.intp]:
    """Indices of ``most`` of n trials, evenly spaced from the first to the last; of all where there are no more."""
    found: NDArray[np.intp] = np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))
    return found


def telling(targets: Array) -> NDArray[np.intp]:
    """Indices of at most 400 trials for a first look at many points: the best half of them, the last, and others.

    Among the last are those that are read at their mean.

    Args:
        targets: Results to be minimised, shape (n,).
    """
    n, quarter = len(targets), _TELLING // 4
    if n <= _TELLING:
        return np.arange(n)
    best = np.argsort(targets, kind="stable")[: 2 * quarter]
    return np.unique(np.concatenate([best, np.arange(n - quarter, n), thinned(n, quarter)]))


@dataclass(frozen=True, eq=False)
class Memo(Generic[_Answer]):
    """The answers to the ``most`` last questions of a process.

    An answer must be a function of its key alone, immutable and not None: with and without the memo the same bits come
    out.
    """

    most: int = 256
    _answers: "OrderedDict[Hashable, _Answer]" = field(default_factory=OrderedDict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def get(self, key: Hashable, answer: Callable[[], _Answer]) -> _Answer:
        """The answer kept under ``key``, or a new one, which is kept; ``answer`` may itself ask the memo."""
        with self._lock:
            found = self._answers.get(key)
        if found is None:
            found = answer()
        with self._lock:
            self._answers[key] = found
            self._answers.move_to_end(key)
            while len(self._answers) > self.most:
                self._answers.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget all answers."""
        self._answers.clear()


def _grown(size: int) -> int:
    """The size that is at least 10% larger, in integer arithmetic: 1.1 * 50 is not 55 in floating point."""
    return -(-11 * size // 10)
