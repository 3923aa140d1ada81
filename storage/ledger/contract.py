"""What a ledger promises: one contract in two files, the writes here and what it can be asked in ``queries``.

An implementation marks its methods with ``@override`` and does not repeat what they promise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger.queries import Queries
from fieldcraft.storage.records import (
    UNLIMITED,
    Campaign,
    Expect,
    FailureKind,
    FieldRef,
    Grant,
    Known,
    Lease,
    Level,
    Limits,
    Notice,
    Product,
    Proposal,
    Result,
    Step,
    Trial,
    TrialState,
)


class Ledger(Queries, Protocol):
    """What every back end promises: the queries of ``storage.ledger.queries``, and these writes.

    Every write is one transaction: the change, its event and its outbox row are stored together or not at all, and
    they are on disk when the call returns. Every write may be repeated after a crash: repeating one that was stored
    changes nothing, or raises ``StaleTrial`` and says where the trial stands now. On a sealed ledger every write but
    ``unseal``, ``take_over`` and ``release`` raises ``Sealed``. Reads see one consistent state and create nothing. An
    instance may be shared by threads and by forked processes. Every method may raise ``LedgerBusy``, and every write to
    a ledger on a server ``OutcomeUnknown``; those that name a campaign or a trial raise ``UnknownCampaign`` or
    ``UnknownTrial``.
    """

    def create_campaign(
        self,
        name: str,
        spec: Mapping[str, Any],
        digest: str,
        environment: Mapping[str, Any],
        by: str,
        limits: Limits = UNLIMITED,
    ) -> Campaign:
        """Write a campaign down; one that exists with the same digest is returned as it is.

        Args:
            name: Letters, digits, ``_``, ``.``, ``-``; at most 100.
            spec: The specification, as JSON.
            digest: ``storage.records.digest_of(spec)``.
            environment: Code version, package versions, machine; recorded, never compared.
            by: Who does this.
            limits: What may be spent; follows from ``spec``, and is kept apart because the ledger enforces it.

        Raises:
            SpecChanged: The campaign exists with another digest; carries the stored specification.
            InvalidRecord: The name is none, or the digest is not that of ``spec``.
        """

    def finish(self, name: str, reason: str, by: str) -> Campaign:
        """Record why a campaign ended, with a notice. The first reason holds; later calls return it unchanged."""

    def acquire(
        self, name: str, break_lease: bool = False, due: float | None = None, held: Lease | None = None
    ) -> Lease:
        """Take the campaign's lease for this process.

        A holder on this host that no longer lives (or whose pid now belongs to another process) is replaced at once,
        and an event says so. Not re-entrant: a process that holds the lease is refused as any other.

        Args:
            name: The campaign.
            break_lease: Replace the holder even if it may be alive; only for a machine that is gone.
            due: When the pass was to begin, in seconds since the epoch; None for one that is wanted in any case.
            held: The lease that the caller saw and means to break; None for whatever there is.

        Raises:
            LeaseHeld: Another live process, or a process of another host, holds it.
            LeaseLost: ``held`` is not held any more: it was given back or taken over since.
            PassServed: A lease that was acquired after ``due`` has been given back: its passes did all there was to do.
        """

    def release(self, lease: Lease, done: bool = True) -> None:
        """Give the lease back; one that was taken over meanwhile is left to its new holder.

        Args:
            lease: The lease.
            done: Whether its passes did what they were to do; otherwise nothing that was due before counts as served.
        """

    def fenced(self, lease: Lease) -> Self:
        """Return this ledger with every write checked: it raises ``LeaseLost`` unless ``lease`` still holds."""

    def acquire_exporter(self, break_lease: bool = False) -> Lease:
        """Take the lease of the one process that exports to tracking; otherwise as ``acquire``."""

    def acquire_trainer(self, campaign: str, break_lease: bool = False) -> Lease:
        """Take the lease of the one process that trains a campaign's model outside a pass; otherwise as ``acquire``.

        It is a lease beside that of the passes: a pass ends while it is held. To break it fences a training off that
        nobody waits for any more: its ``note`` under this lease is refused then.
        """

    def propose(self, campaign: str, iteration: int, proposals: Sequence[Proposal], by: str) -> tuple[Trial, ...]:
        """Write the trials of an iteration down, in slot order, all or none.

        When the campaign already has trials of that iteration, those are returned and nothing is written.

        Raises:
            InvalidRecord: ``proposals`` is empty.
        """

    def adopt(self, campaign: str, known: Sequence[Known], digest: str, algorithm: str, by: str) -> tuple[Trial, ...]:
        """Write measurements from before the campaign down as completed trials of one new iteration, all or none.

        They cost nothing and count towards no limit. ``digest`` names the source (a file's SHA-256) and is kept as each
        origin's ``data_digest``: of a source that the campaign has adopted before, the trials are returned as they are.

        Raises:
            InvalidRecord: ``known`` is empty, or holds NaN or infinity.
        """

    def approve(
        self,
        trial_id: str,
        expect: Expect,
        digest: str,
        by: str,
        comment: str,
        policy: str,
        attempts: int,
        expires: float | None = None,
        code: Code | None = None,
    ) -> Trial:
        """Approve exactly what ``digest`` and ``code`` name, for ``attempts`` attempts, and move the trial to APPROVED.

        From FAILED or HELD this is a fresh approval, which replaces the old one; a held attempt is settled at its
        expected cost.

        Args:
            trial_id: The trial.
            expect: The state and version that the approver saw.
            digest: What the approver saw that would run.
            by: Who approves.
            comment: What they say to it.
            policy: ``manual``, or the policy that decided.
            attempts: How often it may be staged under this approval.
            expires: From when on nothing may be staged under it; None for never.
            code: The source files that would run; kept with an event ``code`` of the campaign, once.

        Raises:
            StaleTrial: The trial has moved meanwhile.
            ForbiddenMove: The trial cannot be approved in its state, or ``digest`` is not what would run.
            InvalidRecord: ``attempts`` is below 1.
        """

    def approve_all(
        self,
        grants: Sequence[Grant],
        by: str,
        comment: str,
        policy: str,
        attempts: int,
        expires: float | None = None,
        code: Code | None = None,
    ) -> tuple[Trial, ...]:
        """Approve several trials in one transaction, all or none; otherwise as ``approve``.

        Raises:
            InvalidRecord: ``grants`` is empty or names a trial twice.
        """

    def reject_all(self, grants: Sequence[Grant], by: str, reason: str) -> tuple[Trial, ...]:
        """Move several trials to REJECTED in one transaction, all or none; raises as ``approve_all``."""

    def edit(
        self, trial_id: str, expect: Expect, design: Mapping[str, Level], cost: float, by: str, reason: str
    ) -> Trial:
        """Give a trial another design: a new revision, PROPOSED again, its approval voided. The origin stays.

        The event ``edit`` keeps the revision, the design before and after, and the digest of what would now run.

        Args:
            trial_id: The trial, PROPOSED or APPROVED.
            expect: The state and version that the editor saw.
            design: The whole design, in physical units, with the trial's own variables.
            cost: Expected cost of one attempt of it.
            by: Who edits.
            reason: Why.

        Raises:
            StaleTrial: The trial has moved meanwhile.
            ForbiddenMove: It is past the states in which it can be edited, or the design is what it was.
            InvalidRecord: NaN, or other variables than the trial's.
        """

    def prioritise(self, trial_id: str, priority: int, by: str, reason: str) -> Trial:
        """Set a trial's priority: of the approved trials those of greater priority are sent first.

        No part of what is approved, so the version stays.

        Raises:
            ForbiddenMove: The trial is settled.
        """

    def move(
        self,
        trial_id: str,
        to: TrialState,
        expect: Expect,
        by: str,
        reason: str,
        handle: Mapping[str, Any] | None = None,
        failure: FailureKind | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        code: Code | None = None,
    ) -> Trial:
        """Move a trial, if it still has the state and version expected. The one door.

        To STAGED: only under a live approval of the trial's own digest and of ``code``, not expired and with an attempt
        left, and only within the campaign's limits, everything that is out counted in; counts the attempt and forgets
        the last handle.
        To APPROVED (a retry): only under such an approval too. To PROPOSED, REJECTED or ABANDONED: voids the approval.
        To HELD: adds a notice. To COMPLETED: never, since that takes a result (``record``). A move that ends an attempt
        (STAGED, RUNNING or HELD to anything else) settles what it cost.

        Args:
            trial_id: The trial.
            to: Where to.
            expect: The state and version the caller acted upon, ``trial.expect``.
            by: Who does this.
            reason: Why, in a few words; for a failure, what happened.
            handle: What the dispatcher needs to find the job again; kept until the next attempt.
            failure: The kind of failure; given exactly when ``to`` is FAILED.
            cost: What the attempt that ends cost; the expected cost where it is not known.
            seconds: Its wall time; what was reserved for it where it is not known.
            code: For a move to STAGED, the source files that would run, as the approval has to name them.

        Raises:
            StaleTrial: The compare-and-swap was lost.
            ForbiddenMove: Not in ``TRANSITIONS``, or without approval, attempt or kind of failure.
            BudgetSpent: To stage it could exceed the campaign's limits.
        """

    def hear(self, trial_id: str, attempt: int) -> Trial:
        """Renew a running trial's lease: note that the dispatcher says just now that the attempt runs.

        The attempt is the fencing token: of an earlier attempt, or a trial that is no longer RUNNING, nothing is noted.
        Version and history stay.

        Raises:
            StaleTrial: The trial is not RUNNING in this attempt any more.
        """

    def record(
        self,
        trial_id: str,
        expect: Expect,
        outputs: Mapping[str, float],
        field: FieldRef | None,
        by: str,
        source: str,
        details: Mapping[str, Any],
        attempt: int | None = None,
        ran: Mapping[str, Level] | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        partial: bool = False,
    ) -> tuple[Trial, Result]:
        """Append a result and judge it; an accepted one moves the trial to COMPLETED.

        Accepted: the present attempt's, where ``TRANSITIONS`` lets the trial complete (RUNNING, FAILED, HELD).
        Duplicate: the trial is COMPLETED with these very outputs, field and design. A result of the same attempt with
        the same details too is not even stored again. Superseded: any other (ABANDONED, an earlier attempt, another
        value): stored, and moves nothing.
        Partial: said to be, where it would have been accepted: stored, and moves nothing.

        Args:
            trial_id: The trial.
            expect: The state and version the caller acted upon.
            outputs: By name, in the outputs' units; finite.
            field: The field, which must be published already.
            by: Who does this.
            source: Where the result came from (the dispatcher's name, a person, a file).
            details: Whatever else is worth keeping, as JSON (wall time, exit status).
            attempt: Which attempt it belongs to; None for the present one.
            ran: The design that was really run, where it differed from the trial's.
            cost: What the attempt cost; the expected cost where it is not known. Of an attempt that was settled before
                (FAILED), what it came to beyond what was charged is added.
            seconds: Its wall time, likewise; what was reserved for it where it is not known.
            partial: Outputs are still missing, so that the trial must not complete yet.

        Raises:
            StaleTrial: The trial has moved meanwhile; read it and record again.
            ForbiddenMove: The attempt was never sent, or is only STAGED (move it to RUNNING first).
            InvalidRecord: An output is NaN or infinite, or there is none.
        """

    def correct(
        self,
        trial_id: str,
        expect: Expect,
        replaces: int,
        outputs: Mapping[str, float] | None,
        field: FieldRef | None,
        by: str,
        reason: str,
        details: Mapping[str, Any],
        ran: Mapping[str, Level] | None = None,
    ) -> tuple[Trial, Result]:
        """Append a result that replaces the one which now counts; the trial stays COMPLETED, with a new version.

        Args:
            trial_id: The trial, COMPLETED.
            expect: The state and version the caller acted upon.
            replaces: The result that now counts (the last one accepted, or the retraction after it).
            outputs: The corrected outputs; None retracts: the trial then has no outputs, and no model learns from it.
            field: The corrected field; None when there is none.
            by: Who corrects.
            reason: Why.
            details: Whatever else is worth keeping, as JSON.
            ran: The design that was really run, where it differed from the trial's.

        Raises:
            StaleTrial: The trial has moved meanwhile.
            ForbiddenMove: The trial is not COMPLETED, ``replaces`` is not the result that counts, or nothing changes.
            InvalidRecord: An output is NaN or infinite, or there is none.
        """

    def note(
        self, campaign: str, iteration: int, step: Step, payload: Mapping[str, Any], reference: FieldRef | None
    ) -> Product:
        """Write down what a step made; when the step of that iteration has a product already, return that one."""

    def exported(self, item_id: int, run_id: str | None) -> None:
        """Mark an outbox item as exported to the tracking run ``run_id``; a second mark changes nothing."""

    def notify(self, campaign: str, event: str, key: str, payload: Mapping[str, Any]) -> Notice:
        """Write down that a person should hear of something; where the campaign has that key, return what there is."""

    def told(self, notice_id: int, success: bool) -> None:
        """Mark a notice as told, or count a try that failed; one that was told stays told."""

    def copy_to(self, target: "Ledger") -> None:
        """Write everything, as it is at one instant, into another ledger that holds nothing yet; whole or not at all.

        Raises:
            LedgerError: ``target`` holds campaigns already, or a row of this one cannot be read.
        """

    def take_over(self, by: str, reason: str, details: Mapping[str, Any]) -> None:
        """Make a copy the ledger of its own place: no lease and no seal holds, and nothing was exported yet.

        Tokens of leases stay ahead of all that were given; an event ``restore`` in every campaign keeps ``details``.
        """

    def seal(self, to: str, leases: Sequence[Lease], by: str, reason: str) -> None:
        """Refuse every write from now on, with ``Sealed``, because the campaigns go on at ``to``.

        Args:
            to: Where they go on, for the error and for the event ``seal`` in every campaign.
            leases: Those of all campaigns, held by this process: no pass is at work, and none begins.
            by: Who moves them.
            reason: Why.

        Raises:
            LeaseLost: One of the leases is not held any more.
            InvalidRecord: A campaign's lease is missing, or there is no campaign.
        """

    def unseal(self, by: str, reason: str) -> None:
        """Let a sealed ledger be written again, with an event ``unseal`` in every campaign; an open one stays."""

    def mend(self, campaign: str, by: str, reason: str, details: Mapping[str, Any]) -> None:
        """Write down, as an event ``repair``, what a person is about to mend: one event for every call."""

    def forget_exports(self, campaign: str) -> None:
        """Take the marks off what tracking was shown of a campaign: the next export shows all of it again."""

    def close(self) -> None:
        """Close what this process keeps open of it; its files can then be moved. The next use opens it again."""
