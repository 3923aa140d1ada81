"""A process that is forked from this one: what both need is imported once."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_LOOK_S = 0.02
_KEYS = (signal.SIGINT, signal.SIGQUIT)  # of the terminal


def can_fork() -> bool:
    """True if this process has one thread, and is on Linux.

    What other threads hold would stay held in a fork. On macOS the system's own libraries end a process that uses them
    after a fork.
    """
    return sys.platform == "linux" and threading.active_count() == 1


def named(name: str) -> None:
    """Show this process as ``name``, of at most 15 letters, in ``ps`` and ``top``, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)


class Forked:
    """A process forked from this one, as ``subprocess.Popen`` shows one.

    It has a session of its own. Of the open files it has those that it is given; what it prints is lost.
    """

    def __init__(self, name: str, work: Callable[[], int], files: Sequence[int] = ()) -> None:
        """Fork it.

        Args:
            name: Its name, as for ``named``.
            work: What it does; returns its exit status. It reads from ``stdin``.
            files: Descriptors that it keeps.
        """
        given, pipe = os.pipe()
        self.stdin = os.fdopen(pipe, "wb", 0)
        self.stderr = os.fdopen(os.memfd_create(name), "w+")  # in memory: there may be no folder to write to
        self.returncode: int | None = None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _KEYS)  # it would be for the code around this, in both
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _be(name, work, (given, self.stderr.fileno()), files)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(given)

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # where SIGCHLD is ignored nobody is told of the end
                ended, status = self.pid, 0
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not within so many seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(_LOOK_S)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        """Close its input, wait for its end, and return all that it complained of."""
        self.stdin.close()
        self.wait(timeout)
        with self.stderr:
            self.stderr.seek(0)
            return None, self.stderr.read()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(9)


def _be(name: str, work: Callable[[], int], ours: tuple[int, int], files: Sequence[int]) -> None:
    """In the forked process: do the work, and end without returning to what the other one was doing."""
    status = 1
    try:
        os.setsid()  # Ctrl-C is for the other one
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _KEYS)
        given, complaints = ours
        nothing = os.open(os.devnull, os.O_WRONLY)
        for number, file in enumerate((given, nothing, complaints)):
            os.dup2(file, number)
        kept = [2, *sorted(files)]
        for below, above in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(below + 1, above)  # an end of another one's pipe would stay open here
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", 1, closefd=False) for n in range(3))
        named(name)
        status = work()
    except BaseException:  # there is no interpreter around this that would print it
        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(status)
