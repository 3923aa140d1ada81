"""Check of SQLite's log for commits that damage would hide.

When SQLite opens a log that nobody has open, it takes its frames up to the first whose checksum does not continue that
of the frame before, and drops the rest without an error. After a crash that is right: the rest was never committed. But
whoever appends a commit flushes it first, so a commit on which a later one was built did reach the disk. Where one lies
beyond the break, the log was altered, and opening it would silently lose the work of people and passes.

A log that was cut at its end cannot be told from one that ends there. The same may hold if a byte of its last two
commits was altered.

    log     header (32 bytes), frames      https://www.sqlite.org/fileformat2.html#walformat
    header  magic (odd where checksums are over big-endian words), version, page size, checkpoint number, salt (2),
            checksum (2): 32-bit words, big-endian
    frame   page number, size of the database after a commit (else 0), salt (2), checksum (2), the page
"""

import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

_HEADER, _FRAME = 32, 24  # bytes
_PAGE = 4096  # SQLite's own choice, which is ours


@dataclass(frozen=True)
class Break:
    """Position of damage in a log.

    Args:
        at: Offset in bytes from which on it cannot be read.
        commits: Least number of commits beyond it.
    """

    at: int
    commits: int


def hidden(log: Path) -> Break | None:
    """The damage that hides commits in the log; None if there is none or if there is no log.

    A frame that is being written while the log is read looks damaged, so damage counts only if it is found twice.
    """
    try:
        first = _hidden(log.read_bytes())
        again = first and _hidden(log.read_bytes())
    except OSError:
        return None
    return again if first and again and again.at == first.at else None


def _hidden(content: bytes) -> Break | None:
    import numpy as np

    if len(content) < _HEADER + _FRAME + _PAGE:
        return None
    header = np.frombuffer(content, ">u4", 8).astype(np.uint32)
    order = ">u4" if header[0] & 1 else "<u4"
    known = bool((_sums(np.frombuffer(content, order, 6)[None], np.zeros(2, np.uint32)) == header[6:]).all())
    page = int(header[2])
    if not known:  # what SQLite writes here
        order, page = f"{'<' if sys.byteorder == 'little' else '>'}u4", _PAGE
    frames = np.frombuffer(content[_HEADER:], np.uint8)
    frames = frames[: len(frames) // (_FRAME + page) * (_FRAME + page)].reshape(-1, _FRAME + page)
    heads = np.ascontiguousarray(frames[:, :_FRAME]).view(">u4").astype(np.uint32)
    before = np.vstack([header[4:], heads[:-1, 2:]])  # salt and checksum that each frame continues
    words = np.ascontiguousarray(np.hstack([frames[:, :8], frames[:, _FRAME:]])).view(order)
    ours = (heads[:, 2:4] == header[4:6]).all(1) if known else np.ones(len(heads), bool)  # not of an earlier round
    follows = ours & (heads[:, 2:4] == before[:, :2]).all(1) & (_sums(words, before[:, 2:]) == heads[:, 4:]).all(1)
    if known and follows.all():
        return None
    start = int(np.argmin(follows)) if known else 0
    commits = [place for place in np.flatnonzero(ours & (heads[:, 1] != 0)) if place >= start]
    built_on = sum(bool(follows[a + 1 : b + 1].all()) for a, b in pairwise(commits))
    return Break(_HEADER + start * (_FRAME + page), built_on) if built_on else None


def _sums(words: "Words", seeds: "Words") -> "Words":
    """Checksums of rows of words that continue those of ``seeds``.

    SQLite adds up word by word, modulo 2^32: s0 += x + s1, s1 += y + s0. That is linear, so that a row is a product.
    """
    import numpy as np

    first, second, ahead = _weights(words.shape[1] // 2)
    x, y = words[:, ::2].astype(np.uint32), words[:, 1::2].astype(np.uint32)
    sums: Words = x @ first + y @ second + np.atleast_2d(seeds) @ ahead
    return sums


@cache
def _weights(steps: int) -> "tuple[Words, Words, Words]":
    """Weights of each x, each y and the seed in both sums after some steps; shapes (steps, 2), (steps, 2), (2, 2)."""
    import numpy as np

    step = np.array([[1, 1], [1, 2]], np.uint32)  # takes (s0, s1) to what they become where both words are 0
    powers = [np.eye(2, dtype=np.uint32)]
    for _ in range(steps):
        powers.append(step @ powers[-1])
    after = np.stack(powers[-2::-1])  # of the first word acts the highest power
    return after @ np.array([1, 1], np.uint32), after @ np.array([0, 1], np.uint32), powers[-1].T
