"""Processes of this host, told apart from later ones that got the same number."""

import psutil

_CLOCK_S = 1.0  # create times are computed from the boot time, which moves a little when the clock is set


def start_time(pid: int) -> float:
    """When a process of this host started, in seconds since the epoch.

    Raises:
        psutil.NoSuchProcess: there is none of that number.
    """
    return float(psutil.Process(pid).create_time())


def is_alive(pid: int, started: float) -> bool:
    """Whether the process that started then still runs; a zombie does not."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - started) < _CLOCK_S
    except psutil.NoSuchProcess:
        return False
