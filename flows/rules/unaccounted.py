"""Traces of commits that a ledger has lost: jobs and orders of attempts that it does not know.

An attempt is recorded in the ledger, on the disk, before any part of it begins. A job's folder or a work order of an
attempt that the ledger does not know therefore means that commits are gone: SQLite's log (``-wal``) was cut or deleted,
a copy was made without it, or the ledger is older than the rest of the home. Lost commits without such a trace cannot
be found.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.jobs.order_folder import PIN, OrderFolder
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.ledger import Ledger, UnknownTrial, UnreadableRow

_KEY = re.compile(r"(?P<trial>[A-Za-z0-9].*-\d{4,})-(?P<attempt>[1-9]\d*)")


@dataclass(frozen=True)
class Begun:
    """An attempt that has begun, by the trace that it left.

    Args:
        trial: Id of the trial.
        attempt: Number of the attempt.
        path: The job's folder or the work order.
    """

    trial: str
    attempt: int
    path: Path


def begun(settings: Settings) -> list[Begun]:
    """All attempts that left a trace in a home; call before the ledger is read, since passes go on meanwhile."""
    return [*_jobs(settings.work.glob("[!.]*/*")), *_orders(settings)]


def lost(ledger: Ledger, traces: Iterable[Begun]) -> Iterator[str]:
    """One sentence for each of these attempts that the ledger does not know."""
    for trace in traces:
        try:
            known = ledger.trial(trace.trial).attempt
        except UnknownTrial:
            yield f"{trace.path}: {trace.trial} was sent, and the ledger holds no such trial. {_WHY}"
            continue
        except UnreadableRow:  # the ledger's own check names it
            continue
        if trace.attempt > known:
            yield f"{trace.path}: attempt {trace.attempt} was sent, and the ledger has made {known}. {_WHY}"


_WHY = (
    "What was written into the ledger last is lost (its log cut, or left out of a copy): restore a later backup, or "
    "move what lies there away to go on from what the ledger holds."
)


def require_known(site: Site) -> None:
    """Accept a ledger that knows all jobs of its campaign: otherwise a new job could get the name of an old one.

    Raises:
        FieldcraftError: it has lost some; names the first.
    """
    for problem in lost(site.ledger, _jobs(site.work.glob("*"))):
        raise FieldcraftError(f"{problem} No pass was made.")


def _jobs(paths: Iterable[Path]) -> Iterator[Begun]:
    for path in sorted(paths):
        if found := _KEY.fullmatch(path.name):
            yield Begun(found["trial"], int(found["attempt"]), path)


def _orders(settings: Settings) -> Iterator[Begun]:
    """Work orders in the folders of this home's campaigns."""
    for pin in settings.work.glob(f"[!.]*/{PIN}"):
        name = pin.parent.name
        orders = OrderFolder(name, (settings.lab or settings.home / "lab") / name, pin)
        if orders.obstacle() is None:
            files = sorted(orders.files())
            yield from (Begun(one.trial, one.attempt, file) for file in files for one in _jobs([file.with_suffix("")]))
