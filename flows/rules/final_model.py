"""Records that the final model of a campaign with noisy results could not be trained; the campaign still ends."""

from typing import TYPE_CHECKING

from fieldcraft.flows.analysis.learnt import counting
from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.text import one_line
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import digest_of

if TYPE_CHECKING:
    from fieldcraft.flows.wiring.context import Site

FAILED = "last training failed"  # the notice's event
_LONGEST = 500  # characters of the reason that are kept


def subject(ledger: Ledger, name: str) -> str:
    """Key of the notice on a final training; it changes with the results, for instance after a correction."""
    numbers = sorted(result.id for result in counting(ledger.result_summaries(name)).values())
    return f"last training {digest_of(numbers)[:16]}"


def give_up(site: "Site", iteration: int, of: str, reason: str) -> None:
    """Record that the final model of a ``subject`` could not be trained, and why, as a notice."""
    said = {"iteration": iteration, "reason": one_line(reason)[:_LONGEST]}
    site.ledger.notify(site.name, FAILED, of, said)
    tell(FAILED, **said)


def given_up(ledger: Ledger, name: str) -> str | None:
    """Reason why the final model of the current results could not be trained; None where no failure is recorded."""
    failed = {notice.key: notice.payload["reason"] for notice in ledger.noticed(name, FAILED)}
    return failed.get(subject(ledger, name)) if failed else None
