"""Records of the ledger: frozen records, the states of a trial, and the table of its moves.

Records are snapshots. Only ``storage.ledger.Ledger`` changes a stored trial. Times are
seconds since the epoch, UTC. Digests are SHA-256 over canonical JSON, in hexadecimal.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import Field

from fieldcraft.storage.origins import CertificateRecord as CertificateRecord
from fieldcraft.storage.origins import Digest as Digest
from fieldcraft.storage.origins import FieldRef as FieldRef
from fieldcraft.storage.origins import Level as Level
from fieldcraft.storage.origins import Name as Name
from fieldcraft.storage.origins import Number as Number
from fieldcraft.storage.origins import Origin as Origin
from fieldcraft.storage.origins import ProductRef as ProductRef
from fieldcraft.storage.origins import Record as Record
from fieldcraft.storage.origins import RegretRecord as RegretRecord


class TrialState(StrEnum):
    """State of a trial; ``TRANSITIONS`` has the moves from each."""

    PROPOSED = "PROPOSED"  # written down, waits for an approval
    APPROVED = "APPROVED"  # may be sent
    STAGED = "STAGED"  # claimed by a dispatcher; perhaps sent, perhaps not
    RUNNING = "RUNNING"  # sent, and the dispatcher's handle is known
    COMPLETED = "COMPLETED"  # has an accepted result, which may have been retracted since
    FAILED = "FAILED"  # has a failure; may be retried under its approval
    ABANDONED = "ABANDONED"  # given up; a late result is kept and changes nothing
    REJECTED = "REJECTED"  # refused before it was sent
    HELD = "HELD"  # sent or finished, unknown: a person or the dispatcher decides


_S = TrialState
TRANSITIONS: Mapping[TrialState, frozenset[TrialState]] = {
    _S.PROPOSED: frozenset({_S.APPROVED, _S.REJECTED}),
    _S.APPROVED: frozenset({_S.STAGED, _S.REJECTED, _S.PROPOSED}),
    _S.STAGED: frozenset({_S.RUNNING, _S.FAILED, _S.ABANDONED, _S.HELD}),
    _S.RUNNING: frozenset({_S.COMPLETED, _S.FAILED, _S.ABANDONED, _S.HELD}),
    _S.FAILED: frozenset({_S.APPROVED, _S.ABANDONED, _S.COMPLETED}),
    _S.HELD: frozenset({_S.RUNNING, _S.COMPLETED, _S.APPROVED, _S.ABANDONED}),
    _S.COMPLETED: frozenset(),
    _S.ABANDONED: frozenset(),
    _S.REJECTED: frozenset(),
}
SETTLED = frozenset({_S.COMPLETED, _S.FAILED, _S.ABANDONED, _S.REJECTED})  # shown by tracking
OUT = frozenset({_S.STAGED, _S.RUNNING, _S.HELD})  # an attempt is out: its cost is reserved

Expect = tuple[TrialState, int]  # the state and version a caller believes a trial has
FailureKind = Literal["transient", "infeasible", "cancelled", "unknown"]
Verdict = Literal["accepted", "duplicate", "superseded", "partial", "retraction"]
COUNTING: frozenset[Verdict] = frozenset({"accepted", "retraction"})  # of a trial's results the last of these counts
Step = Literal["collocate", "train", "acquire", "emulate", "warm_start"]


class Proposal(Record):
    """A design to be recorded as a trial."""

    design: Mapping[str, Level]  # physical units
    origin: Origin
    cost: Number = Field(default=1.0, ge=0)  # expected of one attempt, in the campaign's budget units


class Known(Record):
    """A measurement from before the campaign, to be recorded as a completed trial."""

    design: Mapping[str, Level]  # physical units; what was run
    outputs: Mapping[str, Number]  # in the outputs' units
    field: FieldRef | None = None  # the field that they were read from, where it is in the store
    details: Mapping[str, Any] = {}  # where it came from (file, line, trial), uncertainties, remarks


class Grant(Record):
    """One trial's part of a decision, as the person saw it when they decided."""

    trial: str
    expect: Expect
    digest: Digest  # of exactly what will run


class Trial(Record):
    """One experiment, as it stood when it was read."""

    id: str
    campaign: Name
    number: int  # from 1, never reused within a campaign
    iteration: int
    slot: int
    revision: int  # of the design; an approval is for one revision
    design: Mapping[str, Level]  # physical units; of the present revision
    digest: Digest  # of design, level and the campaign's specification: what an approval is bound to
    priority: int = Field(ge=-1_000_000, le=1_000_000)  # sent earlier when greater; no part of what is approved
    state: TrialState
    version: int  # of this row; every move adds one
    attempt: int  # how often it has been staged
    origin: Origin
    handle: Mapping[str, Any] | None  # the dispatcher's, of the present attempt
    outputs: Mapping[str, Number] | None  # of the accepted result, in the outputs' units
    field: FieldRef | None  # of the accepted result
    ran: Mapping[str, Level] | None  # the design that was really run, where the result says it differed
    failure: FailureKind | None
    cost: Number  # expected of one attempt, in the campaign's budget units; reserved while it is out
    spent: Number  # of all attempts that have ended, in the same units
    seconds: Number  # wall time of all attempts that have ended
    heard: float | None  # when the dispatcher last said that the present attempt runs
    created: float
    updated: float

    @property
    def actual(self) -> Mapping[str, Level]:
        """The design a model learns from: the design as run, if it is known to differ."""
        return self.design if self.ran is None else self.ran

    @property
    def expect(self) -> Expect:
        """State and version of this snapshot, to be passed to ``Ledger.move``."""
        return self.state, self.version

    @property
    def imported(self) -> bool:
        """True if the trial is a measurement from before the campaign."""
        return self.origin.kind == "imported"

    @property
    def level(self) -> int | None:
        """Level of the simulator that it runs, from 0 by rising cost; None for the target."""
        return self.origin.level

    @property
    def counts(self) -> bool:
        """True if it has a result of the target, which counts in the campaign."""
        return _counts(self.state, self.level, self.outputs)


class TrialSummary(NamedTuple):
    """A trial in brief, for counting, ranking and stopping. Its fields are those of ``Trial``."""

    id: str
    number: int
    iteration: int
    state: TrialState
    design: Mapping[str, Level]
    ran: Mapping[str, Level] | None
    outputs: Mapping[str, float] | None
    failure: FailureKind | None
    cost: float
    spent: float
    seconds: float
    imported: bool
    field: Digest | None  # of the accepted result's stored field
    level: int | None = None  # of the simulator; None for the target

    @property
    def actual(self) -> Mapping[str, Level]:
        """The design a model learns from: the design as run, if it is known to differ."""
        return self.design if self.ran is None else self.ran

    @property
    def counts(self) -> bool:
        """True if it has a result of the target, which counts in the campaign."""
        return _counts(self.state, self.level, self.outputs)


def _counts(state: TrialState, level: int | None, outputs: Mapping[str, float] | None) -> bool:
    return state is TrialState.COMPLETED and level is None and bool(outputs)


class Retriable(NamedTuple):
    """A trial that failed temporarily, and the live approval under which it may be sent again."""

    trial: Trial
    used: int  # attempts that were made under the approval
    attempts: int  # that it is for
    expires: float | None
    failed: float  # when the last attempt failed


class Event(Record):
    """One line of a campaign's history, written in the transaction of the change."""

    id: int
    campaign: str
    trial: str | None
    action: str  # create, propose, import, move, approve, edit, prioritise, pick, record, correct, note, lease,
    # finish, upgrade, repair, seal, unseal, restore, code
    before: TrialState | None  # of the trial
    after: TrialState | None
    version: int | None  # of the trial, afterwards
    by: str
    reason: str
    details: Mapping[str, Any]
    created: float

    def enters(self, state: TrialState) -> bool:
        """True if it brought its trial into that state; a part of a result is recorded within one."""
        return self.after is state and self.before is not state


class Result(Record):
    """A result as it was received. It is never overwritten, whatever its verdict."""

    id: int
    trial: str
    attempt: int  # which attempt of the trial it belongs to
    outputs: Mapping[str, Number]  # in the outputs' units; none in a retraction, and where parts are withdrawn
    field: FieldRef | None
    ran: Mapping[str, Level] | None  # the design that was really run, where it differed from the trial's
    digest: Digest  # of outputs, field and, where it differed, the design that was run
    verdict: Verdict
    replaces: int | None  # the result that this one corrects or retracts
    by: str
    source: str  # dispatcher, person, import: where it came from
    details: Mapping[str, Any]
    created: float

    @property
    def sd(self) -> Mapping[str, float]:
        """Standard deviations of outputs that it states, in their units."""
        stated: Mapping[str, float] = self.details.get("sd", {})
        return stated

    @property
    def withdraws(self) -> bool:
        """True if it withdraws the parts of its attempt that came before."""
        return self.verdict == "partial" and not self.outputs


class ResultSummary(NamedTuple):
    """A result in brief, for telling which one counts and what it says. Its fields are those of ``Result``."""

    id: int
    trial: str
    outputs: Mapping[str, float]
    ran: Mapping[str, Level] | None
    verdict: Verdict
    field: Digest | None  # of its stored field
    sd: Mapping[str, float] = {}  # standard deviations of outputs that it states, in their units


class Approval(Record):
    """Permission to run one revision of a trial, a stated number of times."""

    id: int
    trial: str
    revision: int
    digest: Digest  # of exactly what will run
    code: Digest | None = None  # of the code that will run it (``Ledger.codes``); None where it was not said
    by: str
    comment: str
    policy: str  # automatic, manual, ...
    attempts: int  # how often it may be staged under this approval
    version: int  # of the trial when it was approved
    expires: Number | None  # nothing is staged under it from then on
    created: float
    voided: str | None  # why it no longer holds

    @property
    def live(self) -> bool:
        """True if the approval was not voided (its attempts may be used up, and it may have expired)."""
        return self.voided is None


class Product(Record):
    """Product of a step of one iteration; one for each (campaign, iteration, step)."""

    campaign: str
    iteration: int
    step: Step
    payload: Mapping[str, Any]
    reference: FieldRef | None
    created: float

    @property
    def digest(self) -> str:
        """Digest of the payload and of the field it refers to."""
        return digest_of({"payload": self.payload, "reference": self.reference and self.reference.model_dump()})

    @property
    def ref(self) -> ProductRef:
        """The reference that an ``Origin`` keeps."""
        return ProductRef(iteration=self.iteration, digest=self.digest)


class Lease(Record):
    """The right to make passes over a campaign, held by one process at a time."""

    campaign: str
    host: str
    pid: int
    started: float  # when that process started, in seconds after boot: tells it from a later one of the same pid
    token: int  # fencing token: a later lease of the same campaign has a greater one
    acquired: float


class OutboxItem(Record):
    """Item to be shown in tracking, in the order in which it happened.

    ``payload`` by kind: ``campaign`` and ``finish`` carry a ``CampaignRecord``, ``trial`` a ``Trial``, ``surrogate`` a
    ``Product``, ``pick`` an ``Event``, each as JSON. A trial that failed and was retried has several items, and the
    last one holds.
    """

    id: int
    campaign: str
    kind: Literal["campaign", "trial", "surrogate", "finish", "pick"]
    payload: Mapping[str, Any]
    created: float


class Limits(Record):
    """Limits on a campaign's spending. The ledger checks them whenever a trial is staged.

    A trial that is out counts with its expected cost and its wall-time limit, one that has ended with what it spent.
    """

    trials: int | None = Field(default=None, ge=0)  # of the target, sent at least once
    cost: Number | None = Field(default=None, ge=0)  # in budget units
    seconds: Number | None = Field(default=None, ge=0)  # of wall time, added up over the attempts
    attempt_seconds: Number = Field(default=0.0, ge=0)  # wall time reserved for one attempt


UNLIMITED = Limits()


class Spending(Record):
    """Amounts that a campaign has spent and reserved, at one instant."""

    trials: int  # of the target, sent at least once
    spent: Number  # budget units, of attempts that have ended
    reserved: Number  # budget units, of attempts that are out
    seconds: Number  # wall time, of attempts that have ended
    seconds_reserved: Number  # wall time, of attempts that are out


class Notice(Record):
    """Message for a person; sent at least once, and always under the same id."""

    id: int
    campaign: str
    event: Literal[
        "approval waiting", "submission unknown", "budget nearly spent", "last training failed", "campaign ended"
    ]
    key: str  # one notice for each key of a campaign
    payload: Mapping[str, Any]
    created: float
    told: float | None  # when it was told
    tries: int  # how often it could not be told


class CampaignRecord(Record):
    """A campaign as it was created, and the reason for which it ended."""

    name: Name
    spec: Mapping[str, Any]
    digest: Digest  # of ``spec``
    limits: Limits = UNLIMITED
    environment: Mapping[str, Any]  # code, versions, machine
    created: float
    finished: str | None


def canonical(value: object) -> str:
    """Write ``value`` as canonical JSON: sorted keys, no spaces, floats that read back to the same bits.

    Raises:
        ValueError: ``value`` holds NaN or an infinity.
        TypeError: ``value`` holds something that JSON cannot represent.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(value: object) -> str:
    """SHA-256 of the canonical JSON of ``value``, in hexadecimal; raises as ``canonical`` does."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def trial_digest(design: Mapping[str, float | int | str], spec_digest: str, level: int | None = None) -> str:
    """Digest of exactly what will run: the design, at a level of the simulator, under the campaign's specification."""
    what: dict[str, object] = {"design": dict(design), "spec": spec_digest}
    return digest_of(what if level is None else what | {"level": level})


def result_digest(
    outputs: Mapping[str, float], field: FieldRef | None, ran: Mapping[str, float | int | str] | None
) -> str:
    """SHA-256 of a result: outputs, field and, only where it differed, the design that was run."""
    said: dict[str, object] = {"outputs": dict(outputs), "field": field and field.model_dump()}
    return digest_of(said if ran is None else said | {"ran": dict(ran)})
