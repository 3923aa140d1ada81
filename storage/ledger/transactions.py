"""Names of the transactions and of the commit points before and after each, where tests kill the process."""

from fieldcraft.storage.records import TrialState

TRANSACTIONS: tuple[str, ...] = (
    "schema",
    "upgrade",
    "create",
    "propose",
    "adopt",
    "approve",
    "reject",
    "edit",
    "prioritise",
    "pick",
    *(f"move.{state}" for state in TrialState if state is not TrialState.COMPLETED),
    "hear",
    "record",
    "correct",
    "note.collocate",
    "note.train",
    "note.acquire",
    "note.warm_start",
    "lease.acquire",
    "lease.release",
    "lease.give",
    "finish",
    "outbox.exported",
    "notify",
    "notice.told",
    "copy",
    "seal",
    "unseal",
    "take_over",
    "mend",
    "outbox.forgotten",
)
COMMIT_POINTS: tuple[str, ...] = tuple(f"ledger.{name}.{when}" for name in TRANSACTIONS for when in ("before", "after"))
