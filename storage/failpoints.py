"""Named instants beside durable effects, so that a test can kill the process at exactly one of them.

A commit point costs two dictionary look-ups when nothing is being tested. Two environment variables, read at every
call because tests fork, switch it on:

    FIELDCRAFT_DIE_AT=NAME#K     the K-th time (1-based) this process passes NAME, it kills itself with SIGKILL
    FIELDCRAFT_POINTS_LOG=FILE   every passage appends the line NAME#K to FILE
"""

import itertools
import os
import signal
from collections.abc import Iterator

_passages: dict[str, Iterator[int]] = {}
# A forked child counts from one again: K is a number of passages of one process.
os.register_at_fork(after_in_child=_passages.clear)


def commit_point(name: str) -> None:
    """Mark the instant just before or just after a durable effect.

    Args:
        name: Name of the instant, such as ``ledger.propose.before``; the same name at every passage.

    It does not return if ``FIELDCRAFT_DIE_AT`` names this passage: the process ends without flushing or cleaning up, as
    after a power failure or a kill by the kernel's out-of-memory killer.
    """
    passage = f"{name}#{next(_passages.setdefault(name, itertools.count(1)))}"
    if log := os.environ.get("FIELDCRAFT_POINTS_LOG"):
        _append(log, passage)
    if os.environ.get("FIELDCRAFT_DIE_AT") == passage:
        os.kill(os.getpid(), signal.SIGKILL)


def _append(path: str, line: str) -> None:
    """Add one line in a single write, so that lines of several processes never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
