"""The ledger: trials that move through one small state machine, with every move recorded.

This package holds the contract and the errors. ``fieldcraft.storage.open_ledger`` finds the back end; importing the
package imports no back end.
"""

from fieldcraft.storage.ledger.contract import Ledger
from fieldcraft.storage.ledger.errors import (
    BudgetSpent,
    ForbiddenMove,
    InvalidRecord,
    LeaseHeld,
    LeaseLost,
    LedgerBusy,
    LedgerError,
    NetworkFileSystem,
    NewerSchema,
    NoLedger,
    NotALedger,
    OldSchema,
    OutcomeUnknown,
    PassServed,
    Sealed,
    SpecChanged,
    StaleTrial,
    UnknownCampaign,
    UnknownTrial,
    UnreadableRow,
)
from fieldcraft.storage.ledger.transactions import COMMIT_POINTS, TRANSACTIONS

__all__ = [
    "COMMIT_POINTS",
    "TRANSACTIONS",
    "BudgetSpent",
    "ForbiddenMove",
    "InvalidRecord",
    "LeaseHeld",
    "LeaseLost",
    "Ledger",
    "LedgerBusy",
    "LedgerError",
    "NetworkFileSystem",
    "NewerSchema",
    "NoLedger",
    "NotALedger",
    "OldSchema",
    "OutcomeUnknown",
    "PassServed",
    "Sealed",
    "SpecChanged",
    "StaleTrial",
    "UnknownCampaign",
    "UnknownTrial",
    "UnreadableRow",
]
