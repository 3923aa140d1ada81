"""The model that a campaign of noisy readings ends with, where it could not be trained: said, and no obstacle."""

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.text import one_line
from fieldcraft.flows.wiring.context import Site
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import digest_of

FAILED = "last training failed"  # the notice's event
_LONGEST = 500  # characters of the reason that are kept


def subject(ledger: Ledger, name: str) -> str:
    """What a last training is of, as a notice's key: other readings, as after a correction, are another training."""
    return f"last training {digest_of(sorted(ledger.standing(name).values()))[:16]}"


def give_up(site: Site, iteration: int, of: str, reason: str) -> None:
    """Write down that the last model of the readings of a ``subject`` could not be trained, and why; tell a person."""
    said = {"iteration": iteration, "reason": one_line(reason)[:_LONGEST]}
    site.ledger.notify(site.name, FAILED, of, said)
    tell(FAILED, **said)


def given_up(ledger: Ledger, name: str) -> str | None:
    """Why the last model of the readings that count now could not be trained; None where nobody has found so."""
    failed = {notice.key: notice.payload["reason"] for notice in ledger.noticed(name, FAILED)}
    return failed.get(subject(ledger, name)) if failed else None
