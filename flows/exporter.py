"""The process that exports a run to MLflow meanwhile: ``python -m fieldcraft.flows.exporter HOME NAME``."""

import os

from fieldcraft.flows.machinery.collecting import seldom

if __name__ == "__main__":
    os.nice(10)  # the campaign comes first, before the imports below, too
    os.environ["OMP_NUM_THREADS"] = "1"  # others would wait for each other: the campaign has the cores
    seldom()

import select
import sys
from pathlib import Path

from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.flows.text import one_line
from fieldcraft.flows.views.export import export_mlflow
from fieldcraft.storage.ledger import LeaseHeld
from fieldcraft.storage.trackers.errors import TrackingError

_EVERY_S = 5.0  # each time the campaign's runs are looked up again


def _follow(settings: Settings, name: str) -> int:
    """Export repeatedly until the pipe from the run closes, and then once more."""
    ended = False
    while True:
        try:
            export_mlflow(settings, name)
        except TrackingError as error:
            print(one_line(str(error)), file=sys.stderr)
            return 1
        except LeaseHeld as error:  # another exporter is at work on the same outbox: there is a next time, or a word
            if ended:
                print(one_line(str(error)), file=sys.stderr)
                return 1
        if ended:
            return 0
        ended = bool(select.select([sys.stdin], [], [], _EVERY_S)[0])


if __name__ == "__main__":
    raise SystemExit(_follow(settings_from(home=Path(sys.argv[1])), sys.argv[2]))
