"""Errors of a ledger; every message states the value, the problem and the remedy.

LedgerError
+-- NoLedger           there is no ledger
+-- NotALedger         another kind of file, or damaged beyond reading
+-- UnreadableRow      rows of it were altered behind its back
+-- NewerSchema        written by a newer fieldcraft
+-- OldSchema          written by an older one, and it cannot be upgraded just now
+-- NetworkFileSystem  the file lies where SQLite's locks cannot be trusted
+-- LedgerBusy         another writer held it for too long, or its server went away; nothing was written
+-- OutcomeUnknown     its server went away while a write was being committed
+-- InvalidRecord      NaN, a wrong digest, an invalid name
+-- UnknownCampaign, UnknownTrial
+-- SpecChanged        the campaign exists with another specification
+-- StaleTrial         the compare-and-swap was lost
+-- ForbiddenMove      not in the table, or without a live approval
+-- BudgetSpent        sending the trial could exceed the campaign's limits
+-- LeaseHeld          another process makes the passes
+-- PassServed         a later pass has done this pass's work
+-- LeaseLost          this process no longer holds the lease
+-- Sealed             the campaigns were moved to another place
"""

from collections.abc import Mapping
from typing import Any, Self

from fieldcraft.storage.records import Expect, Lease


class LedgerError(Exception):
    """Base of the errors of a ledger; the message states the value, the problem and the remedy."""


class NoLedger(LedgerError):
    """No ledger exists at the place named."""


class NotALedger(LedgerError):
    """The file or database is not a ledger, or is damaged beyond reading."""


class UnreadableRow(LedgerError):
    """Rows cannot be read because they were altered outside the ledger; the message names the first."""


class NewerSchema(LedgerError):
    """The ledger was written by a newer schema than this code knows; nothing was changed."""


class OldSchema(LedgerError):
    """The ledger was written by an older schema and cannot be upgraded just now; nothing was changed."""


class NetworkFileSystem(LedgerError):
    """The ledger would lie on a network file system, where SQLite's locks cannot be trusted."""


class LedgerBusy(LedgerError):
    """The ledger cannot be used just now: another writer held it for too long, or its server is down or restarting.

    Nothing was written, so the call may simply be repeated.
    """


class OutcomeUnknown(LedgerError):
    """The server went away while a write was being committed: it is stored whole, or not at all.

    Every write may be repeated: a write that was stored is not stored twice, or raises ``StaleTrial`` with the trial's
    state.
    """


class InvalidRecord(LedgerError):
    """A value that may not be stored: NaN or infinite, a wrong digest, an invalid name."""


class UnknownCampaign(LedgerError):
    """The ledger holds no campaign of that name."""


class UnknownTrial(LedgerError):
    """The ledger holds no trial of that id."""


class SpecChanged(LedgerError):
    """The campaign exists with another specification.

    Attributes:
        stored: The specification that the ledger holds.
    """

    def __init__(self, message: str, stored: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.stored = stored


class StaleTrial(LedgerError):
    """The trial has moved since the caller read it.

    Attributes:
        now: The state and version it has.
    """

    def __init__(self, message: str, now: Expect) -> None:
        super().__init__(message)
        self.now = now


class ForbiddenMove(LedgerError):
    """The move is not in ``TRANSITIONS``, or lacks what it needs (a live approval, an attempt, a failure)."""


class BudgetSpent(LedgerError):
    """Sending the trial could exceed the campaign's limits; nothing was changed."""


class LeaseHeld(LedgerError):
    """Another process holds the lease.

    Attributes:
        holder: Its lease.
    """

    def __init__(self, message: str, holder: Lease) -> None:
        super().__init__(message)
        self.holder = holder


class PassServed(LedgerError):
    """A pass that began after this one was due has done its work; nothing was changed."""


class LeaseLost(LedgerError):
    """The lease was taken over; the write was refused and nothing was changed."""

    @classmethod
    def to(cls, lost: Lease, holder: Lease | None) -> Self:
        """The error of a process that held ``lost``. ``holder`` is the lease of the present holder, or None."""
        now = "free" if holder is None else f"held by pid {holder.pid} on {holder.host}"
        return cls(
            f"This process no longer holds the lease on {lost.campaign!r} (token {lost.token}): it is {now}. "
            "Nothing was written; what this process was doing is for the next pass to find."
        )


class Sealed(LedgerError):
    """The ledger's campaigns were moved to another place; nothing was changed."""
