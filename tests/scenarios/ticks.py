"""Ticks that are due at one instant, each in a process of its own: ``python -m scenarios.ticks HOME CAMPAIGN COUNT``.

Prints a line for each: how many designs its pass proposed, or ``null`` where it made none.
"""

import json
import os
import sys
import time
from pathlib import Path

from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.steps.one_pass import Ref, make_pass
from fieldcraft.flows.steps.schedule import Tick, tick
from fieldcraft.flows.wiring.context import site_of
from fieldcraft.storage.open_ledger import open_ledger


def main(home: Path, name: str, count: int) -> None:
    site_of(str(home), name, None)  # all that is slow to import, before there are a hundred
    at = Tick(time.time())
    for _ in range(2):  # the second half finds the pass over, where the first has met it running
        together(home, name, at, count // 2)


def together(home: Path, name: str, at: Tick, count: int) -> None:
    """Have ticks begin together, and wait until all have ended."""
    start, end = os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os.close(end)
            os.read(start, 1)  # returns when the parent has closed the other end
            run(home, name, at)
        children.append(child)
    os.close(end)
    if any(os.waitpid(child, 0)[1] for child in children):
        raise SystemExit("a tick failed")


def run(home: Path, name: str, at: Tick) -> None:
    status = 1
    try:
        ledger = open_ledger(settings_from({}, home).ledger)
        outcome = tick(ledger, name, at, lambda lease: make_pass(Ref(str(home), name, lease.model_dump())))
        os.write(1, f"{json.dumps(None if isinstance(outcome, str) else outcome.proposed)}\n".encode())
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
