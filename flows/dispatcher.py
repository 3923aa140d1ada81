"""The protocol of a place to run: it takes a trial under a key, and can say later what became of that key."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from storage.records import FailureKind

if TYPE_CHECKING:
    import xarray as xr

Handle = Mapping[str, Any]
"""What finds a job again, as JSON; kept by the ledger."""


@dataclass(frozen=True)
class Running:
    """The job lives."""


@dataclass(frozen=True)
class Finished:
    """The job wrote its result; ``seconds`` of wall time."""

    seconds: float


@dataclass(frozen=True)
class Failed:
    """The job ended without a result and said why."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True)
class Lost:
    """The job is gone without a word: whether it did its work, nobody can say."""

    reason: str


Outcome = Running | Finished | Failed | Lost


class CannotTell(Exception):
    """Whether a key was ever started, the dispatcher cannot say; the message says why."""


@dataclass(frozen=True)
class Job:
    """What a dispatcher is asked to run: plain JSON, since it may run on another machine.

    Args:
        trial: Trial id.
        key: Names this attempt for ever; a result is matched by it alone.
        request: Problem, simulator, design and the address of the randomness.
    """

    trial: str
    key: str
    request: Mapping[str, Any]


class Dispatcher(Protocol):
    """Where simulations run.

    Submitting a key twice runs it once. ``find`` tells a key that was never started (None) from one that was; a
    dispatcher that cannot tell raises ``CannotTell``: the trial is then held for a person and not sent again.
    """

    def __init__(self, folder: Path, wall_time_s: float) -> None:
        """A dispatcher for one campaign, its scratch files under ``folder``."""
        ...

    def submit(self, job: Job) -> Handle:
        """Start the job and return at once."""
        ...

    def find(self, key: str) -> Handle | None:
        """The handle of a job that was started under ``key``, alive or not; None when none ever was."""
        ...

    def look(self, handle: Handle) -> Outcome:
        """What has become of the job; reads only."""
        ...

    def poll(self, handle: Handle) -> Outcome:
        """The same, and final: a job that is said to have failed or to be lost will not begin any more."""
        ...

    def fetch(self, handle: Handle) -> "xr.Dataset":
        """The fields of a finished job.

        Raises:
            storage.fields.FieldDamaged: they are not what the job wrote.
        """
        ...

    def cancel(self, handle: Handle) -> None:
        """Stop the job and everything it started; one that has ended is left alone."""
        ...

    def forget(self, key: str) -> None:
        """Delete the scratch files of a job whose result the ledger holds."""
        ...

    def wait(self, handles: "list[Handle]", seconds: float) -> None:
        """Return when one of the jobs has ended, or after ``seconds``."""
        ...
