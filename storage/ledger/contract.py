"""The contract of a ledger, in two files: the writes here and the queries in ``queries``.

An implementation marks its methods with ``@override`` and does not repeat the contract.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, Self

from fieldcraft.storage.code import Code
from fieldcraft.storage.ledger.custody import Custody
from fieldcraft.storage.ledger.queries import Queries
from fieldcraft.storage.records import (
    UNLIMITED,
    CampaignRecord,
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


class Ledger(Queries, Custody, Protocol):
    """The contract of all back ends: the queries of ``storage.ledger.queries``, and writes: these, and ``Custody``.

    Every write is one transaction: the change, its event and its outbox row are stored together or not at all, and
    they are on disk when the call returns. Every write may be repeated after a crash: repeating one that was stored
    changes nothing, or raises ``StaleTrial`` with the state the trial has now. On a sealed ledger every write but
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
    ) -> CampaignRecord:
        """Record a new campaign. If it exists with the same digest, it is returned unchanged.

        Args:
            name: Letters, digits, ``_``, ``.``, ``-``; at most 100.
            spec: The specification, as JSON.
            digest: ``storage.records.digest_of(spec)``.
            environment: Code version, package versions, machine; recorded, never compared.
            by: Who does this.
            limits: What may be spent, as stated in ``spec``; stored separately because the ledger enforces it.

        Raises:
            SpecChanged: The campaign exists with another digest; carries the stored specification.
            InvalidRecord: The name is invalid, or the digest is not that of ``spec``.
        """

    def finish(self, name: str, reason: str, by: str) -> CampaignRecord:
        """Record why a campaign ended, with a notice. The first reason is kept; later calls return it unchanged."""

    def acquire(
        self, name: str, break_lease: bool = False, due: float | None = None, held: Lease | None = None
    ) -> Lease:
        """Take the campaign's lease for this process.

        A holder on this host that no longer lives (or whose pid now belongs to another process) is replaced at once,
        and an event records it. Not re-entrant: a process that already holds the lease is refused too.

        Args:
            name: The campaign.
            break_lease: Replace the holder even if it may be alive; only for a machine that no longer exists.
            due: When the pass was to begin, in seconds since the epoch; None for a pass without a due time.
            held: The lease that the caller saw and means to break; None for any lease.

        Raises:
            LeaseHeld: Another live process, or a process of another host, holds it.
            LeaseLost: ``held`` is not held any more: it was given back or taken over since.
            PassServed: A lease acquired after ``due`` was given back: its passes did all the work that was due.
        """

    def release(self, lease: Lease, done: bool = True) -> None:
        """Give the lease back. A lease that was taken over meanwhile is left to its new holder.

        Args:
            lease: The lease.
            done: True if its passes did their work; otherwise passes that were due before do not count as served.
        """

    def fenced(self, lease: Lease) -> Self:
        """Return this ledger with every write checked: it raises ``LeaseLost`` unless ``lease`` still holds."""

    def acquire_exporter(self, break_lease: bool = False) -> Lease:
        """Take the lease of the one process that exports to tracking; otherwise as ``acquire``."""

    def acquire_trainer(self, campaign: str, break_lease: bool = False) -> Lease:
        """Take the lease of the one process that trains a campaign's model outside a pass; otherwise as ``acquire``.

        It is separate from the lease of the passes, so passes go on while it is held. Breaking it fences off a training
        whose result is no longer wanted: ``note`` under the old lease is then refused.
        """

    def give(self, campaign: str, trials: Collection[str], out: Collection[str]) -> None:
        """Note that this process was given trials; forget to whom any was given that is not in ``out``."""

    def propose(self, campaign: str, iteration: int, proposals: Sequence[Proposal], by: str) -> tuple[Trial, ...]:
        """Record the trials of an iteration, in slot order, all or none.

        When the campaign already has trials of that iteration, those are returned and nothing is written.

        Raises:
            InvalidRecord: ``proposals`` is empty.
        """

    def adopt(self, campaign: str, known: Sequence[Known], digest: str, algorithm: str, by: str) -> tuple[Trial, ...]:
        """Record measurements from before the campaign as completed trials of one new iteration, all or none.

        They cost nothing and count towards no limit. ``digest`` names the source (a file's SHA-256) and is kept as each
        origin's ``data_digest``. If the campaign has adopted that source before, its trials are returned unchanged.

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
            digest: Digest of what would run, as the approver saw it.
            by: Who approves.
            comment: Their comment.
            policy: ``manual``, or the policy that decided.
            attempts: Number of times it may be staged under this approval.
            expires: When the approval expires, in seconds since the epoch; None for never.
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
            ForbiddenMove: The trial is in a state in which it cannot be edited, or the design is unchanged.
            InvalidRecord: NaN, or other variables than the trial's.
        """

    def prioritise(self, trial_id: str, priority: int, by: str, reason: str, revision: int | None = None) -> Trial:
        """Set a trial's priority: of the approved trials those of greater priority are sent first.

        The priority is not part of what is approved, so the version stays.

        Raises:
            StaleTrial: ``revision`` was seen, and the trial was edited since.
            ForbiddenMove: The trial is settled.
        """

    def pick(self, trial_id: str, expect: Expect, by: str, reason: str, how: Mapping[str, Any]) -> None:
        """Record that a person picks a completed trial of several objectives; the campaign's latest pick counts.

        Args:
            trial_id: The trial.
            expect: The state and version that the person saw.
            by: Who picks.
            reason: Why.
            how: The rule by which it was found, as JSON.

        Raises:
            StaleTrial: The trial has moved meanwhile, or its result was corrected.
            ForbiddenMove: The trial has no result.
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
        """Move a trial if it still has the state and version expected. Trials change state only through this method.

        To STAGED: only under a live approval of the trial's own digest and of ``code``, not expired and with an attempt
        left, and only within the campaign's limits, everything that is out counted in; counts the attempt and forgets
        the last handle.
        To APPROVED (a retry): only under such an approval too. To PROPOSED, REJECTED or ABANDONED: voids the approval.
        To HELD: adds a notice. To COMPLETED: never, since that takes a result (``record``). A move that ends an attempt
        (STAGED, RUNNING or HELD to anything else) settles what it cost.

        Args:
            trial_id: The trial.
            to: Its new state.
            expect: The state and version the caller acted upon, ``trial.expect``.
            by: Who does this.
            reason: Reason in a few words; for a failure, what happened.
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
        """Renew a running trial's heartbeat: note that the dispatcher reports the attempt as running now.

        The attempt is the fencing token: for an earlier attempt, or a trial not RUNNING any more, nothing is noted.
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

        Accepted: the result of the present attempt, if ``TRANSITIONS`` lets the trial complete (RUNNING, FAILED, HELD).
        Duplicate: the trial is COMPLETED with these very outputs, field and design. A result of the same attempt with
        the same details too is not even stored again. Superseded: any other (ABANDONED, an earlier attempt, another
        value) is stored and moves nothing.
        Partial: marked by the caller, where it would have been accepted: stored, and the trial gets a new version, so
        that who recorded on what they had read before is told (``StaleTrial``) and adds up the parts again; the time of
        its last change stays. A part that repeats one with the same details is not stored again. The caller gives the
        outputs of all parts of the attempt. One without outputs withdraws the parts before it.

        Args:
            trial_id: The trial.
            expect: The state and version the caller acted upon.
            outputs: By name, in the outputs' units; finite. Empty of a part: those before it are withdrawn.
            field: The field, which must be published already.
            by: Who does this.
            source: Where the result came from (the dispatcher's name, a person, a file).
            details: Further information as JSON (wall time, exit status).
            attempt: Attempt it belongs to; None for the present one.
            ran: The design that was really run, where it differed from the trial's.
            cost: What the attempt cost; the expected cost where it is not known. For an attempt that was settled before
                (FAILED), the excess over what was charged is added.
            seconds: Its wall time, likewise; what was reserved for it where it is not known.
            partial: Outputs are still missing, so that the trial must not complete yet.

        Raises:
            StaleTrial: The trial has moved, or got a part, meanwhile; read it and its results, and record again.
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
        cost: float | None = None,
        seconds: float | None = None,
    ) -> tuple[Trial, Result]:
        """Append a result that replaces the one that now counts; the trial stays COMPLETED, with a new version.

        Args:
            trial_id: The trial, COMPLETED.
            expect: The state and version the caller acted upon.
            replaces: The result that now counts (the last one accepted, or the retraction after it).
            outputs: The corrected outputs; None retracts: the trial then has no outputs, and no model learns from it.
            field: The corrected field; None when there is none.
            by: Who corrects.
            reason: Why.
            details: Further information as JSON.
            ran: The design that was really run, where it differed from the trial's.
            cost: What the attempt really cost: the difference from what was charged is charged, or given back. None
                leaves it.
            seconds: Its wall time, likewise.

        Raises:
            StaleTrial: The trial has moved meanwhile.
            ForbiddenMove: The trial is not COMPLETED, ``replaces`` is not the result that counts, nothing changes, or
                an imported trial, which was never charged, gets a cost or a time.
            InvalidRecord: An output is NaN or infinite, or there is none; a cost or time is negative or not finite.
        """

    def note(
        self, campaign: str, iteration: int, step: Step, payload: Mapping[str, Any], reference: FieldRef | None
    ) -> Product:
        """Record the product of a step. If that iteration's step has a product already, it is returned unchanged."""

    def exported(self, item_id: int, run_id: str | None) -> None:
        """Mark an outbox item as exported to the tracking run ``run_id``; a second mark changes nothing."""

    def notify(self, campaign: str, event: str, key: str, payload: Mapping[str, Any]) -> Notice:
        """Record a notice for a person. If the campaign has a notice of that key, it is returned unchanged."""

    def told(self, notice_id: int, success: bool) -> None:
        """Mark a notice as sent, or count a failed try. A notice that was sent stays so."""

    def copy_to(self, target: "Ledger") -> None:
        """Copy the ledger, as of one instant, into another ledger that is empty; all or nothing.

        Raises:
            LedgerError: ``target`` holds campaigns already, or a row of this one cannot be read.
        """
