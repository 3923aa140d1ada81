"""Simulations within the pass itself, for formulas of milliseconds: a process each would take a thousand times longer.

A job is a calculation that may be repeated without harm, so only simulators that declare themselves idempotent run
here. Its handle holds the whole request: if no answer exists and no process is computing it, it is computed again, to
the same bits. Its time is not limited. While it runs, variables that may hold secrets are removed from ``os.environ``;
a program that searches the process itself still finds them.

A process claims a job in its folder (``flows.jobs.job_folder``) before it runs it, so that no other process runs it at
the same time. The answer stays in memory, where the next pass of the same process finds it. Answers that no pass has
taken when the process gives its pass lease back are written to the folder, for the pass of another process.
"""

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fieldcraft.flows.jobs.dispatcher import Failed, Finished, Handle, Job, Lost, NotSent, Outcome, Place, Running
from fieldcraft.flows.jobs.job_folder import JobFolder
from fieldcraft.flows.jobs.simulation import Refused, judged, simulate
from fieldcraft.flows.settings import no_secrets, settings_from
from fieldcraft.flows.spec.registry import load
from fieldcraft.storage.fields import FieldDamaged, FieldError
from fieldcraft.storage.processes import boot, is_alive

if TYPE_CHECKING:
    import xarray as xr

_POLL_S = 0.02


@dataclass(frozen=True)
class Inline:
    """Runs each job at once, in the process that submits it.

    Args:
        place: The campaign; its wall time is not enforced.
    """

    place: Place
    by_people: ClassVar[bool] = False
    within_pass: ClassVar[bool] = True
    _answers: ClassVar[dict[Path, "_Answer"]] = {}  # of this process, by the job's folder, until forgotten

    def _of(self, key: str) -> JobFolder:
        return JobFolder(self.place.folder / key)

    def submit(self, job: Job) -> Handle:
        """Run the job, unless it has an answer or another process runs it.

        Raises:
            NotSent: its simulator is not idempotent.
        """
        kind = job.request["simulator"]["kind"]
        if not load("simulators", kind, settings_from().plugins).idempotent:
            raise NotSent(
                f"{job.trial}: simulator {kind!r} is not idempotent, and the dispatcher 'inline' may run a job again "
                "after a crash. Use the dispatcher 'local', or declare the simulator `idempotent = True` if it is."
            )
        handle = {"key": job.key, "request": dict(job.request)}
        self.poll(handle)
        return handle

    def find(self, key: str) -> Handle | None:
        """None: a job that was not recorded as running may be submitted again without harm."""
        return None

    def look(self, handle: Handle) -> Outcome:
        """Return how the job ended, or that another process runs it; lost where neither is so."""
        folder = self._of(handle["key"])
        if (answer := self._answers.get(folder.path)) is not None:
            return answer.outcome
        busy = _is_elsewhere(folder)  # before the folder is read: what a dead process left behind is complete
        if (verdict := folder.verdict()) is not None:
            return verdict
        return Running() if busy else Lost("nobody has its answer, and nobody is at it")

    def poll(self, handle: Handle) -> Outcome:
        """Return the state as ``look`` does, but run a lost job now."""
        outcome = self.look(handle)
        return self._run(handle) if isinstance(outcome, Lost) else outcome

    def _run(self, handle: Handle) -> Outcome:
        folder = self._of(handle["key"])
        folder.delete()  # the claim of a process that has ended
        folder.path.mkdir(parents=True, exist_ok=True)
        if not folder.begin(flush=False):  # a claim that a power cut takes went with its process
            return Running()  # another process was faster
        outcome, fields = _answered(handle["request"])
        self._answers[folder.path] = _Answer(self.place.campaign, outcome, fields)
        return outcome

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields of a finished job."""
        folder = self._of(handle["key"])
        answer = self._answers.get(folder.path)
        if answer is None:
            return folder.load()
        if answer.fields is None:
            raise FieldDamaged(f"{handle['key']} failed and has no fields. Ask `look` what became of it.")
        return answer.fields

    def cancel(self, handle: Handle) -> None:
        """Do nothing: a submitted job has already ended."""

    def forget(self, key: str) -> None:
        """Drop the job's answer and its folder."""
        folder = self._of(key)
        self._answers.pop(folder.path, None)
        folder.delete()

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return at once; if other processes run all of the jobs, when one has ended or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while handles and time.monotonic() < deadline and all(isinstance(self.look(h), Running) for h in handles):
            time.sleep(_POLL_S)


@dataclass(frozen=True)
class _Answer:
    campaign: str
    outcome: Finished | Failed
    fields: "xr.Dataset | None"


def write_down(campaign: str) -> None:
    """Write the answers of a campaign that no pass of this process has taken into their folders.

    If the disk refuses, the next pass that asks runs the job again.
    """
    for path, answer in [(path, kept) for path, kept in Inline._answers.items() if kept.campaign == campaign]:
        del Inline._answers[path]
        folder = JobFolder(path)
        if _is_elsewhere(folder) or not folder.started:  # given up meanwhile
            continue
        with suppress(OSError, FieldError):
            _write(folder, answer)


def _write(folder: JobFolder, answer: _Answer) -> None:
    outcome = answer.outcome
    if isinstance(outcome, Failed):
        folder.fail(outcome.kind, outcome.reason, outcome.seconds or 0.0, outcome.cost)
        return
    assert answer.fields is not None  # it has finished
    folder.save(answer.fields, outcome.seconds)


def _is_elsewhere(folder: JobFolder) -> bool:
    """True if another live process of this machine has the job.

    A process of another machine has lost its pass lease for good.
    """
    claim = folder.started
    here = (claim.get("boot"), claim.get("host")) == (boot(), socket.gethostname())
    return here and claim["pid"] != os.getpid() and is_alive(claim["pid"], claim["started"])


def _answered(request: dict[str, Any]) -> "tuple[Finished | Failed, xr.Dataset | None]":
    began = time.monotonic()
    try:
        plugins = settings_from().plugins
        with no_secrets():
            answer = simulate(request, plugins)
    except (Exception, SystemExit) as error:  # the outermost edge of a user's simulator: what it raises is recorded
        kind, reason, cost = judged(error)
        return Failed(kind, reason, cost, time.monotonic() - began), None
    seconds = time.monotonic() - began
    if isinstance(answer, Refused):
        return Failed("infeasible", answer.reason, answer.cost, seconds), None
    return Finished(seconds), answer
