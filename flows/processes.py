"""Processes of this host, told apart from later ones that got the same number."""

import os
from contextlib import suppress

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


def end_group(leader: int) -> bool:
    """Kill what a process group leader that is gone has left behind; returns whether anything still lived.

    While a member lives its group's number goes to no other process, so a live process of that number is a stranger,
    and then nothing was left.
    """
    left = [process for process in psutil.process_iter() if _lives_in(process, leader)]
    if any(process.pid == leader for process in left):
        return False
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return bool(left)


def _lives_in(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
