"""Simulations within the pass itself: for formulas of milliseconds, where a process each would cost a thousandfold.

A job is a calculation that may be repeated without harm, and nothing of it is kept on the disk: its handle holds the
whole request, and whoever asks for a result that this process does not hold computes it again, to the same bits. That
is why only simulators that declare themselves idempotent run here. Nothing limits the time of one. While it runs,
variables that may hold secrets are out of ``os.environ``; a program that searches the process still finds them.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flows.dispatcher import Failed, Finished, Handle, Job, NotSent, Outcome, Place
from flows.plugins import load
from flows.settings import no_secrets, settings_from
from flows.simulation import Refused, judged, simulate
from storage.fields import FieldDamaged

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Inline:
    """Runs each job at once, in the process that submits it.

    Args:
        place: The campaign; its wall time is not enforced.
    """

    place: Place
    by_people: ClassVar[bool] = False
    within_pass: ClassVar[bool] = True
    _answers: ClassVar[dict[tuple[str, str], "_Answer"]] = {}  # by campaign's folder and key, until fetched

    def submit(self, job: Job) -> Handle:
        """Run the job, unless this process has its answer.

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
        self._answer(handle)
        return handle

    def find(self, key: str) -> Handle | None:
        """None: what was not written down as running may be submitted again without harm."""
        return None

    def look(self, handle: Handle) -> Outcome:
        """How the job ended."""
        return self._answer(handle).outcome

    def poll(self, handle: Handle) -> Outcome:
        """As ``look``: nothing begins later."""
        return self.look(handle)

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields of a finished job, which this process then holds no longer."""
        fields = self._answer(handle).fields
        if fields is None:
            raise FieldDamaged(f"{handle['key']} failed and has no fields. Ask `look` what became of it.")
        self.forget(handle["key"])
        return fields

    def cancel(self, handle: Handle) -> None:
        """Nothing to do: a job that was submitted has ended."""

    def forget(self, key: str) -> None:
        """Drop the job's answer."""
        self._answers.pop((str(self.place.folder), key), None)

    def wait(self, handles: list[Handle], seconds: float) -> None:
        """Return at once: a job that was submitted has ended."""

    def _answer(self, handle: Handle) -> "_Answer":
        key = (str(self.place.folder), handle["key"])
        if key not in self._answers:
            self._answers[key] = _answered(handle["request"])
        return self._answers[key]


@dataclass(frozen=True)
class _Answer:
    outcome: Finished | Failed
    fields: "xr.Dataset | None" = None


def _answered(request: dict[str, Any]) -> _Answer:
    began = time.monotonic()
    try:
        plugins = settings_from().plugins
        with no_secrets():
            answer = simulate(request, plugins)
    except (Exception, SystemExit) as error:  # the outermost edge of a user's simulator: what it raises is recorded
        kind, reason = judged(error)
        return _Answer(Failed(kind, reason, seconds=time.monotonic() - began))
    seconds = time.monotonic() - began
    if isinstance(answer, Refused):
        return _Answer(Failed("infeasible", answer.reason, answer.cost, seconds))
    return _Answer(Finished(seconds), answer)
