"""Garbage collection of a process that imports much: a million objects, hardly any of them garbage."""

import atexit
import gc

_USUAL = gc.get_threshold()
# Or Python looks through all there is as the process ends: a third of the time of a short command.
atexit.register(gc.freeze)


def seldom() -> None:
    """Collect seldom from now on: imports take a quarter less time. What makes passes calls ``as_usual`` before."""
    gc.set_threshold(200_000, 20, 100)


def as_usual() -> None:
    """Collect as Python does, but never look through what is there now."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
