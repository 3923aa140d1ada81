"""The protocol of a dispatcher: it takes a trial under a key, and can report later on the job of that key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

from fieldcraft.flows.errors import FieldcraftError
from fieldcraft.flows.settings import Settings, settings_from
from fieldcraft.storage.records import FailureKind

if TYPE_CHECKING:
    import xarray as xr

    from fieldcraft.physics.problem import Problem

Handle = Mapping[str, Any]
"""What finds a job again, as JSON; kept by the ledger."""


@dataclass(frozen=True)
class Running:
    """The job is running, or may begin.

    Args:
        waits: What it waits for before it begins, in words; None where it has begun or nothing is known.
    """

    waits: str | None = None


@dataclass(frozen=True)
class Finished:
    """The job wrote its result; ``seconds`` of wall time."""

    seconds: float


@dataclass(frozen=True)
class Failed:
    """The job ended without a result and gave a reason.

    Args:
        kind: Kind of failure, which decides what may be done about it.
        reason: Reason in the job's own words.
        cost: Its cost in budget units; None where only the expected cost is known.
        seconds: Its wall time; None where it is not known.
    """

    kind: FailureKind
    reason: str
    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Lost:
    """The job is gone and left no outcome: it is not known whether it did its work."""

    reason: str


Outcome = Running | Finished | Failed | Lost


class CannotTell(Exception):
    """The dispatcher does not know whether a key was ever started; the message says why."""


class NotSent(FieldcraftError):
    """The job has certainly not begun and may be submitted again; the message has the problem and the remedy."""


@dataclass(frozen=True)
class Place:
    """Arguments of a dispatcher: one campaign, under the operator's settings.

    Args:
        campaign: Name of the campaign.
        folder: Scratch folder of the campaign.
        wall_time_s: Limit of one job in seconds.
        instructions: Instructions for people, sent with every job.
        orders: Folder in which work orders and results of the campaign are exchanged.
        webhook: URL to which each work order is sent too; None for none.
        webhook_token: Bearer token for it.
        parallel: Number of jobs that may run at once.
        settings: All settings of the operator; by default from this process's environment.
    """

    campaign: str
    folder: Path
    wall_time_s: float
    instructions: str
    orders: Path
    webhook: str | None = field(default=None, repr=False)
    webhook_token: str | None = field(default=None, repr=False)
    parallel: int = 1
    settings: Settings = field(default_factory=settings_from, repr=False)


@dataclass(frozen=True)
class Job:
    """One attempt of a trial for a dispatcher to run: plain JSON, since it may run on another machine.

    Args:
        trial: Trial id.
        key: Unique name of this attempt; a result is matched by it alone.
        request: Problem, simulator (None where people or a program do the work), design, address of the randomness,
            units of the design's variables, outputs with their units, digest of the approved trial, and the approved
            code: digests of source files and programs by name, which the process that imports or starts them compares.
    """

    trial: str
    key: str
    request: Mapping[str, Any]


class Dispatcher(Protocol):
    """A place where simulations run or experiments are done.

    Submitting a key twice runs it once. ``find`` tells a key that was never started (None) from one that was. A
    dispatcher that cannot tell raises ``CannotTell``; the trial is then held for a person and not sent again.

    A dispatcher is a frozen dataclass whose first field is ``place``. Its other fields are its own options, which the
    campaign file gives beside the options of all dispatchers.

    Attributes:
        by_people: True if people do the work. No pass waits for them, no simulator is named in the campaign file, and
            nothing is repeated without a person's decision. A dispatcher that also takes their results is ``Ordering``.

    A dispatcher that runs simulations within the pass itself declares ``within_pass: ClassVar[bool] = True``. It then
    gets only simulators that are idempotent, and campaigns without a limit of wall time.

    A dispatcher that answers designs itself declares ``answers: ClassVar[bool] = True`` and is ``Answering``: its
    campaigns name no simulator. The dataset that it fetches holds the variables that the problem's ``evaluate`` reads,
    or a scalar variable for each output, which is then the output.

    A dispatcher that starts programs of the operator's lists them in ``programs``, files by the names to show, so that
    approvals cover their contents.
    """

    by_people: ClassVar[bool]

    @property
    def place(self) -> Place:
        """The arguments it was made with."""
        ...

    def __init__(self, place: Place) -> None:
        """A dispatcher for one campaign."""
        ...

    def submit(self, job: Job) -> Handle:
        """Start the job and return at once.

        Raises:
            NotSent: It has certainly not begun; a later pass submits it again.
            CannotTell: It may have begun.
        """
        ...

    def find(self, key: str) -> Handle | None:
        """The handle of a job that was started under ``key``, alive or not; None when none ever was."""
        ...

    def look(self, handle: Handle) -> Outcome:
        """Return the state of the job; reads only.

        Raises:
            CannotTell: The state cannot be learnt now, for instance because the dispatcher does not answer.
        """
        ...

    def poll(self, handle: Handle) -> Outcome:
        """Return the final state of the job: one that is reported as failed or lost will never begin."""
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


class Answering(Dispatcher, Protocol):
    """A dispatcher that answers designs itself.

    Attributes:
        answers: True.
    """

    answers: ClassVar[bool]

    @property
    def idempotent(self) -> bool:
        """True if an experiment may be repeated without harm."""
        ...

    @property
    def noisy(self) -> bool:
        """True if a repeated experiment may give another result."""
        ...

    def require(self, problem: "Problem") -> None:
        """Accept a problem under the operator's settings.

        Raises:
            InputError: it cannot be served; says why and what to do.
        """
        ...


@runtime_checkable
class Ordering(Dispatcher, Protocol):
    """A dispatcher by people that keeps account of their orders and has a folder for files of results.

    Each pass reads the files (``flows.results.inbox``) and closes the orders of trials that are settled. A dispatcher
    by people that is not an ``Ordering`` gets results by ``fieldcraft record`` alone, and manages its orders itself.
    """

    @property
    def inbox(self) -> Path:
        """The folder into which people drop tables and JSON files of results; it need not exist."""
        ...

    def require_folder(self) -> None:
        """Accept the place of the orders if it belongs to the campaign, or to no campaign yet.

        Raises:
            InputError: it belongs to another, or is not there now; says why and what to do.
        """
        ...

    def at_large(self) -> Mapping[str, Mapping[str, Any]]:
        """The orders that people have or may have, by their keys; of each at least ``trial`` and ``digest``."""
        ...

    def write_tables(self) -> None:
        """Update the tables for people to the open orders. Cells that people have filled in are never lost."""
        ...


def within_pass(dispatcher: Dispatcher | type[Dispatcher]) -> bool:
    """True if simulations run within the pass itself; False for a dispatcher that does not declare it."""
    return bool(getattr(dispatcher, "within_pass", False))


def answering(dispatcher: Dispatcher) -> Answering | None:
    """The dispatcher if it answers designs itself; None for one that does not declare it."""
    return cast(Answering, dispatcher) if getattr(dispatcher, "answers", False) else None
