"""Opening a ledger: the only module that imports the back ends."""

from pathlib import Path

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.ledger.errors import LedgerError


def open_ledger(place: str | Path, create: bool = False, upgrade: bool = True) -> Ledger:
    """Open the ledger at a path or URL; one of an older schema is upgraded in place, in one transaction.

    Args:
        place: A file path, ``sqlite:///`` followed by one, or ``postgresql://USER@HOST/DATABASE``.
        create: Make the ledger (a file's folder, too) when there is none; otherwise opening creates nothing.
        upgrade: Upgrade a ledger of an older schema; otherwise it is left as it is.

    Raises:
        NoLedger: There is none and ``create`` is false, or the server has no such database.
        NotALedger: The file or database is something else.
        NewerSchema: It was written by a newer schema.
        OldSchema: It was written by an older schema, and a live process holds a lease, it may only be read, or
            ``upgrade`` is false.
        NetworkFileSystem: It lies on a network file system.
        LedgerBusy: Its server does not answer.
        LedgerError: The URL is invalid, or its scheme is unknown.
    """
    scheme, found, rest = str(place).partition("://")
    # The back ends are imported here, so that importing this module does not import SQLAlchemy.
    if found and scheme == "postgresql":
        from fieldcraft.storage.ledgers import postgresql

        return postgresql.open_ledger(str(place), create=create, upgrade=upgrade)
    if found and scheme != "sqlite":
        raise LedgerError(
            f"No ledger back end for this URL: the scheme {scheme!r} is unknown. Use a path, sqlite:///PATH or "
            "postgresql://USER@HOST/DATABASE."
        )
    from fieldcraft.storage.ledgers import sqlite

    return sqlite.open_ledger(Path(rest.removeprefix("/") if found else place), create=create, upgrade=upgrade)
