"""Custody of a ledger: copies, moves and repairs of it as a whole; a part of the contract."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fieldcraft.storage.records import Lease


class Custody(Protocol):
    """Writes that concern a ledger as a whole; what ``Ledger`` says of every write holds for them."""

    def take_over(self, by: str, reason: str, details: Mapping[str, Any]) -> None:
        """Make a copy the ledger of its own place: all leases and seals are dropped, and nothing counts as exported.

        Lease tokens stay greater than all given out before. An event ``restore`` in every campaign keeps ``details``.
        """

    def seal(self, to: str, leases: Sequence[Lease], by: str, reason: str) -> None:
        """Refuse every write from now on, with ``Sealed``, because the campaigns go on at ``to``.

        Args:
            to: Their new place, for the error and for the event ``seal`` in every campaign.
            leases: Leases of all campaigns, held by this process, so that no pass is running and none can begin.
            by: Who moves them.
            reason: Why.

        Raises:
            LeaseLost: One of the leases is not held any more.
            InvalidRecord: A campaign's lease is missing, or there is no campaign.
        """

    def unseal(self, by: str, reason: str) -> None:
        """Allow writes to a sealed ledger again, with an event ``unseal`` in every campaign; an open one stays open."""

    def mend(self, campaign: str, by: str, reason: str, details: Mapping[str, Any]) -> None:
        """Record, as an event ``repair``, a repair that a person is about to make: one event for every call."""

    def forget_exports(self, campaign: str) -> None:
        """Clear the export marks of a campaign: the next export shows all of it in tracking again."""

    def close(self) -> None:
        """Close the connections of this process, so that the files can be moved. The next use opens them again."""
