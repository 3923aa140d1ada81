"""The process that exports a run to MLflow meanwhile: ``python -m fieldcraft.flows.exporter HOME NAME``, or a fork."""

import os

from fieldcraft.flows.machinery.collecting import as_usual, seldom

if __name__ == "__main__":
    os.nice(10)  # the campaign comes first, before the imports below, too
    seldom()

import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fieldcraft.flows.machinery.forked import Forked, can_fork, named
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.text import one_line
from fieldcraft.flows.views.export import export_mlflow
from fieldcraft.storage.ledger import LeaseHeld
from fieldcraft.storage.trackers.errors import TrackingError

_EVERY_S = 10.0  # each time the campaign's runs are looked up again


@contextmanager
def waiting(settings: Settings) -> Iterator[Forked | None]:
    """An exporter forked from this process, which begins once it is told a campaign's name, and ends if it is not.

    None where nothing is exported, or where this process has other threads.
    """
    if settings.mlflow == "off" or not can_fork():
        yield None
        return
    import pandas  # noqa: F401  # needed by both, as what follows

    import fieldcraft.storage.ledgers.sqlite  # noqa: F401

    with (child := Forked("exporter", partial(_told, settings))).stdin:
        yield child


def _told(settings: Settings) -> int:
    os.nice(10)
    name = sys.stdin.readline().strip()
    return _follow(settings, name) if name else 0


def _follow(settings: Settings, name: str) -> int:
    """Export repeatedly until the pipe from the run closes, and then once more."""
    for ended in _looks():
        try:
            export_mlflow(settings, name)
        except TrackingError as error:
            print(one_line(str(error)), file=sys.stderr)
            return 1
        except LeaseHeld as error:  # another exporter is at work on the same outbox: there is a next time, or a word
            if ended:
                print(one_line(str(error)), file=sys.stderr)
                return 1
    return 0


def _looks() -> Iterator[bool]:
    """True for the last export, since the pipe from the run has closed."""
    yield False
    as_usual()  # MLflow is imported; once, since what is garbage by then is kept
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        yield False
    yield True


if __name__ == "__main__":
    named("exporter")
    raise SystemExit(_follow(settings_from(home=Path(sys.argv[1])), sys.argv[2]))
