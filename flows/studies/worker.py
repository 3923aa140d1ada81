"""A process that runs cells of a study, one after the other: ``python -m fieldcraft.flows.studies.worker``.

    it reads    {"cell": name, "campaign": campaign file as data, "home": folder}             a line each
    it answers  {"ready": true}                                                               once
                {"cell": name, "trials": n, "cpu": s}                                         after every pass
                {"cell": name, "ended": true, "error": null or why}

It ends as soon as its input ends, even within a pass; a later run of the cell goes on from its ledger. Modules are
imported once, and the passes of a cell are one Prefect flow run. Its steps are no Prefect tasks: seven tasks a trial
take 0.17 s of CPU time, mostly of the server, which is several times that of the pass itself.
"""

import json
import os
import queue
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.jobs.job_folder import write_json
from fieldcraft.flows.machinery.collecting import as_usual, seldom
from fieldcraft.flows.run import awaited, pause
from fieldcraft.flows.settings import settings_from
from fieldcraft.flows.spec.campaign_file import parse
from fieldcraft.flows.steps.leases import held
from fieldcraft.flows.steps.one_pass import (
    Passed,
    Ref,
    acquire_step,
    collocate_step,
    emulator_points_step,
    emulator_train_step,
    make_pass,
    train_step,
)
from fieldcraft.flows.studies.plan.folder import add_spent
from fieldcraft.flows.studies.scoring.truth import measured
from fieldcraft.flows.wiring.build import wire
from fieldcraft.flows.wiring.campaign import Campaign
from fieldcraft.flows.wiring.create import created
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.open_ledger import open_ledger

P = ParamSpec("P")
T = TypeVar("T")
Tell = Callable[[dict[str, Any]], None]
_CHOOSING = (emulator_points_step, emulator_train_step, collocate_step, train_step, acquire_step)
_PROPOSING = frozenset(step.__name__ for step in _CHOOSING)


@dataclass(frozen=True)
class Order:
    """A cell to run.

    Args:
        cell: Name of the cell.
        campaign: Its campaign file as data.
        home: Its folder.
    """

    cell: str
    campaign: Mapping[str, Any]
    home: str


class Meter:
    """CPU seconds of this process by step, since the last line was taken."""

    def __init__(self) -> None:
        self.began = 0.0  # what the process took to begin is spent, too
        self.steps: defaultdict[str, float] = defaultdict(float)

    def call(self, step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a step as a plain function, and count its time."""
        began = time.process_time()
        try:
            return step(*args, **kwargs)
        finally:
            self.steps[step.__name__] += time.process_time() - began

    def line(self, passed: Passed | None) -> dict[str, float]:
        """Cost since the last line, for a pass that has ended or failed."""
        now = time.process_time()
        by_model = passed is not None and passed.decision.model
        line = {
            "cpu": round(now - self.began, 6),
            "proposing": round(sum(self.steps[name] for name in _PROPOSING), 6) if by_model else 0.0,
            "proposed": passed.proposed if passed is not None and by_model else 0,
        }
        self.began = now
        self.steps.clear()
        return line


def run_cell(order: Order, meter: Meter, tell: Tell) -> None:
    """Run a cell to its end, from its present state in the ledger, and write its result.

    Raises:
        FieldcraftError: the campaign cannot go on.
    """
    settings = settings_from(home=Path(order.home))
    campaign = wire(parse(order.campaign, order.cell), settings)
    ledger = open_ledger(settings.ledger, create=True)
    if created(ledger, campaign, Path(order.home) / "campaign.json", strictly=True) is None:
        with held(ledger, campaign.name) as lease:
            ref = Ref(order.home, campaign.name, lease.model_dump())
            _passes(campaign, ledger, ref, meter, tell)
    write_json(Path(order.home) / "result.json", measured(campaign, ledger))


def _passes(campaign: Campaign, ledger: Ledger, ref: Ref, meter: Meter, tell: Tell) -> None:
    while True:
        passed = None
        try:
            passed = make_pass(ref, meter.call)
        finally:
            line = meter.line(passed)
            add_spent(Path(ref.home), line)
        tell({"cell": campaign.name, "trials": len(ledger.trials(campaign.name)), "cpu": line["cpu"]})
        decision = passed.decision
        if decision.finished:
            return
        if decision.wait in ("person", "laboratory") and not passed.approved:
            raise awaited(campaign, ledger)
        if decision.wait and not passed.approved:
            pause(campaign, ledger, passed)


def _attempted(order: Order, run: Callable[[Order], None], tell: Tell) -> None:
    """Run a cell and report its end; a failure does not stop the other cells."""
    error = None
    try:
        run(order)
    except Exception as problem:  # the outermost edge of a cell: whatever an algorithm raises is recorded with it
        error = " ".join(str(problem).split()) or type(problem).__name__
        if not isinstance(problem, FieldcraftError):
            error = f"{type(problem).__name__}: {error}"
    tell({"cell": order.cell, "ended": True, "error": error})


def _flow(meter: Meter, tell: Tell) -> Callable[[Order], None]:
    """``run_cell`` as a Prefect flow, one run a cell."""
    from prefect import flow

    @flow(name="cell", flow_run_name="{cell}", persist_result=False, retries=0)
    def cell_flow(cell: str, campaign: dict[str, Any], home: str) -> None:
        run_cell(Order(cell, campaign, home), meter, tell)

    return lambda order: cell_flow(order.cell, dict(order.campaign), order.home)


def _orders(lines: IO[str]) -> "queue.SimpleQueue[Order]":
    """A queue of the incoming orders; the process ends when the input does."""
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()

    def read() -> None:
        for line in lines:
            orders.put(Order(**json.loads(line)))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return orders


def _speaker(descriptor: int) -> Tell:
    """A function that writes one line of JSON to a descriptor, apart from what libraries print."""
    out = os.fdopen(descriptor, "w")

    def tell(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    return tell


def main() -> None:
    """Run cells until the input ends."""
    seldom()
    tell = _speaker(os.dup(1))
    os.dup2(2, 1)
    orders = _orders(sys.stdin)
    import torch

    from fieldcraft.flows.machinery.prefect_server import without_heartbeats

    torch.set_num_threads(1)
    meter = Meter()
    run = _flow(meter, tell)
    as_usual()
    tell({"ready": True})
    with without_heartbeats():
        while True:
            _attempted(orders.get(), run, tell)


if __name__ == "__main__":
    main()
