"""The worker pool of a study: it hands out cells in order until the limit is reached."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.studies.plan.folder import StudyFolder
from fieldcraft.flows.studies.plan.spec import Cell
from fieldcraft.storage.processes import THREADS

Heard = Callable[[Cell, dict[str, Any]], None]
"""Called with every message of a cell's worker."""

# A study's campaigns call for nobody, and each has a ledger of its own in its home.
_APART = ("FIELDCRAFT_NOTIFY_URL", "FIELDCRAFT_NOTIFY_COMMAND", "FIELDCRAFT_LEDGER")


class Worker:
    """A process that runs one cell at a time on one thread; it ends with this process, however that ends."""

    def __init__(self, number: int, folder: StudyFolder, lock: int, inbox: "queue.SimpleQueue[Message]") -> None:
        environment = {name: value for name, value in os.environ.items() if name not in _APART}
        environment |= dict.fromkeys(THREADS, "1") | {"FIELDCRAFT_MLFLOW": "off"}
        self.number, self.folder, self.log = number, folder, folder.path / f"worker-{number}.log"
        self.cell: Cell | None = None
        self.began = False
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fieldcraft.flows.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the study, which ends its workers
                pass_fds=(lock,),
                text=True,
            )
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def give(self, cell: Cell) -> None:
        """Send a cell to the worker to run."""
        assert self.process.stdin is not None  # piped above
        self.cell = cell
        order = {"cell": cell.name, "campaign": cell.campaign, "home": str(self.folder.home(cell))}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Kill the worker at once, even while it runs a cell."""
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """Exit status and log of a worker that ended by itself.

        Raises:
            FieldcraftError: it never began.
        """
        status = self.process.wait()
        if not self.began:
            raise FieldcraftError(f"A worker ended with status {status} before it began: {self.log} says why.")
        return f"its process ended with status {status}; {self.log} may say why"

    def _listen(self, inbox: "queue.SimpleQueue[Message]") -> None:
        assert self.process.stdout is not None  # piped above
        for line in self.process.stdout:
            self.began = True
            inbox.put((self, json.loads(line)))
        inbox.put((self, None))


Message = tuple[Worker, dict[str, Any] | None]
"""What a worker said; None once it is gone."""


@dataclass
class WorkerPool:
    """Worker pool of one study.

    Args:
        folder: The study's files.
        lock: Descriptor that the workers inherit, so that the study is locked while one of them lives.
        parallel: Number of workers.
        budget: CPU seconds that all cells may take together from now on; None for no limit.
    """

    folder: StudyFolder
    lock: int
    parallel: int
    budget: float | None

    def work(self, cells: Sequence[Cell], heard: Heard) -> bool:
        """Run cells in order. True if the limit ended the run before all of them were done.

        Raises:
            FieldcraftError: a worker cannot begin, whichever cell it would run.
        """
        waiting = iter(cells)
        inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        with _ended([]) as workers:
            for number, first in zip(range(self.parallel), waiting, strict=False):
                workers.append(Worker(number, self.folder, self.lock, inbox))
                workers[-1].give(first)
            while any(worker.cell for worker in workers):
                if self.budget is not None and self.budget <= 0:
                    return True
                worker, said = inbox.get()
                cell = worker.cell
                if cell is None or (said is not None and "cell" not in said):  # gone without work, or about to begin
                    continue
                said = said or {"ended": True, "error": worker.last_words()}
                if self.budget is not None:
                    self.budget -= said.get("cpu", 0.0)
                if said.get("ended"):
                    worker.cell = None
                    if (following := next(waiting, None)) is not None:
                        workers[worker.number] = self._able(worker, inbox)
                        workers[worker.number].give(following)
                heard(cell, said)
        return False

    def _able(self, worker: Worker, inbox: "queue.SimpleQueue[Message]") -> Worker:
        """The worker, or a new one in its place if it has ended."""
        if worker.process.poll() is None:
            return worker
        return Worker(worker.number, self.folder, self.lock, inbox)


@contextmanager
def _ended(workers: list[Worker]) -> Iterator[list[Worker]]:
    """Kill the workers when the block ends."""
    try:
        yield workers
    finally:
        for worker in workers:
            worker.end()
