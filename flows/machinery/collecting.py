"""Garbage collection of a process that imports much: a million objects, hardly any of them garbage."""

import atexit
import gc

_USUAL = gc.get_threshold()


def seldom() -> None:
    """Collect seldom from now on: imports take a quarter less time. What makes passes calls ``as_usual`` before.

    Only for a process of ours. Unless it calls that, it does not look through all there is as it ends: a third of the
    time of a short command.
    """
    gc.set_threshold(200_000, 20, 100)
    atexit.register(gc.freeze)


def as_usual() -> None:
    """Collect as Python does, as the process ends, too, but never look through what is there now."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
    atexit.unregister(gc.freeze)
