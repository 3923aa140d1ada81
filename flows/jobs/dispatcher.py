"""The protocol of a place to run: it takes a trial under a key, and can say later what became of that key."""

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
    """The job lives."""


@dataclass(frozen=True)
class Finished:
    """The job wrote its result; ``seconds`` of wall time."""

    seconds: float


@dataclass(frozen=True)
class Failed:
    """The job ended without a result and said why.

    Args:
        kind: What may be done about it.
        reason: Why, in the job's own words.
        cost: What it cost in budget units; None where only the expected cost is known.
        seconds: Its wall time; None where it is not known.
    """

    kind: FailureKind
    reason: str
    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Lost:
    """The job is gone without a word: whether it did its work, nobody can say."""

    reason: str


Outcome = Running | Finished | Failed | Lost


class CannotTell(Exception):
    """Whether a key was ever started, the dispatcher cannot say; the message says why."""


class NotSent(FieldcraftError):
    """The job has certainly not begun and may be submitted again; says the value, the problem and the remedy."""


@dataclass(frozen=True)
class Place:
    """What a dispatcher is made for: one campaign, under the operator's settings.

    Args:
        campaign: Name of the campaign.
        folder: Scratch files of the campaign.
        wall_time_s: Limit of one job in seconds.
        instructions: What people are told with every job.
        orders: Folder in which work orders and results of the campaign are exchanged.
        webhook: Where each work order is sent too; None for nowhere.
        webhook_token: Bearer token for it.
        settings: All that the operator has set; by default what this process's environment says.
    """

    campaign: str
    folder: Path
    wall_time_s: float
    instructions: str
    orders: Path
    webhook: str | None = field(default=None, repr=False)
    webhook_token: str | None = field(default=None, repr=False)
    settings: Settings = field(default_factory=settings_from, repr=False)


@dataclass(frozen=True)
class Job:
    """What a dispatcher is asked to run: plain JSON, since it may run on another machine.

    Args:
        trial: Trial id.
        key: Names this attempt for ever; a result is matched by it alone.
        request: Problem, simulator (None where people or a program do the work), design, address of the randomness,
            units of the design's variables, outputs with their units, digest of what was approved, and the code that
            was: digests of source files and programs by name, which whoever imports or starts them compares.
    """

    trial: str
    key: str
    request: Mapping[str, Any]


class Dispatcher(Protocol):
    """Where simulations run, or experiments are done.

    Submitting a key twice runs it once. ``find`` tells a key that was never started (None) from one that was; a
    dispatcher that cannot tell raises ``CannotTell``: the trial is then held for a person and not sent again.

    It is a frozen dataclass whose first field is ``place``; its other fields are its own options, which the campaign
    file gives beside those that all have.

    Attributes:
        by_people: Whether people do the work. No pass waits for them, no simulator is named in the campaign file, and
            nothing is ever repeated without a person's word. One that takes their results too is ``Ordering``.

    One that runs simulations within the pass itself declares ``within_pass: ClassVar[bool] = True``: it then gets only
    simulators that are idempotent, and campaigns without a limit of wall time.

    One that answers designs itself declares ``answers: ClassVar[bool] = True`` and is ``Answering``: its campaigns name
    no simulator. What it fetches holds what the problem's ``evaluate`` reads, or a scalar variable for each output, and
    these are then the outputs.

    One that starts programs of the operator's has them as ``programs``, files by the names to show, so that approvals
    cover what is in them.
    """

    by_people: ClassVar[bool]

    @property
    def place(self) -> Place:
        """What it was made for."""
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
        """What has become of the job; reads only.

        Raises:
            CannotTell: Nothing can be learnt now, as where the dispatcher does not answer.
        """
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


class Answering(Dispatcher, Protocol):
    """A dispatcher that answers designs itself.

    Attributes:
        answers: True.
    """

    answers: ClassVar[bool]

    @property
    def idempotent(self) -> bool:
        """Whether an experiment may be repeated without harm."""
        ...

    @property
    def noisy(self) -> bool:
        """Whether a repeated experiment may read otherwise."""
        ...

    def require(self, problem: "Problem") -> None:
        """Accept a problem under the operator's settings.

        Raises:
            InputError: it cannot be served; says why and what to do.
        """
        ...


@runtime_checkable
class Ordering(Dispatcher, Protocol):
    """A dispatcher by people that keeps account of their orders, and where they drop files of results.

    Each pass reads the files (``flows.results.inbox``) and closes the orders of trials that are settled. One by people
    that is not this is told of results by ``fieldcraft record`` alone, and its orders are its own affair.
    """

    @property
    def inbox(self) -> Path:
        """The folder into which people drop tables and JSON files of results; it need not be there."""
        ...

    def require_folder(self) -> None:
        """Accept what orders are kept in if it is the campaign's own, or nobody's yet.

        Raises:
            InputError: it is another's, or not there now; says why and what to do.
        """
        ...

    def at_large(self) -> Mapping[str, Mapping[str, Any]]:
        """The orders that people have or may have, by their keys; of each at least ``trial`` and ``digest``."""
        ...

    def write_tables(self) -> None:
        """Bring what people are shown in line with the open orders; what they have written is never lost."""
        ...


def within_pass(dispatcher: Dispatcher | type[Dispatcher]) -> bool:
    """Whether simulations run within the pass itself; not for one that does not say."""
    return bool(getattr(dispatcher, "within_pass", False))


def answering(dispatcher: Dispatcher) -> Answering | None:
    """The dispatcher where it answers designs itself; None for one that does not say."""
    return cast(Answering, dispatcher) if getattr(dispatcher, "answers", False) else None
