"""Processes of this host, distinguished from later ones with the same number."""

import os
import signal
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables of the environment by which numerical libraries are told their number of threads."""
_TICK_S = 0.05  # start times of one process differ by rounding only, those of two by far more


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_time(pid: int) -> float:
    """Start of a process of this host, in seconds after boot; setting the clock does not change it.

    Raises:
        psutil.NoSuchProcess: there is none of that number.
    """
    # psutil adds the boot time as it is now, which moves by a second while the clock is being set.
    while True:
        before = psutil.boot_time()
        created = psutil.Process(pid).create_time()
        if psutil.boot_time() == before:
            return float(created - before)


@cache
def own_start_time(pid: int) -> float:
    """Start of this process, whose number is given, in seconds after boot: looked up once, and again after a fork."""
    return start_time(pid)


def boot() -> str:
    """Identifier of one boot of one machine; a process number is unique only within it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return f"{socket.gethostname()} {psutil.boot_time():.0f}"


def is_alive(pid: int, started: float) -> bool:
    """True if the process that started then still runs; a zombie does not."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(start_time(pid) - started) < _TICK_S
    except psutil.NoSuchProcess:
        return False


def signal_name(number: int) -> str:
    """Name of a signal, or its number if it has no name, as most real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def kill_group(leader: int) -> None:
    """Kill a process group whose leader was seen alive; it may have ended since, and then nothing of it is left."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def end_group(leader: int) -> bool:
    """Kill the processes that an ended process group leader has left behind; returns True if any was still running.

    While a member of the group runs, its number goes to no other process. A live process of that number is therefore a
    stranger, and then nothing was left behind.
    """
    left = [process for process in psutil.process_iter() if _lives_in(process, leader)]
    if any(process.pid == leader for process in left):
        return False
    for process in left:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.kill()
    return bool(left)


def _lives_in(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False
