"""Every field that a ledger mentions, and what mentions it."""

from collections.abc import Iterator
from dataclasses import dataclass

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import FieldRef, Product, Result


@dataclass(frozen=True)
class Mention:
    """A field that must be there.

    Args:
        campaign: Whose it is.
        reference: Names the field.
        by: The product of a step, or the result of a trial, that mentions it.
    """

    campaign: str
    reference: FieldRef
    by: Product | Result

    @property
    def owner(self) -> str:
        """``train 3 of heat`` or ``result 7 of heat-0002``."""
        if isinstance(self.by, Product):
            return f"{self.by.step} {self.by.iteration} of {self.campaign}"
        return f"result {self.by.id} of {self.by.trial}"


def mentions(ledger: Ledger, campaign: str) -> Iterator[Mention]:
    """The fields of a campaign: its products' in order of iterations, then its results'."""
    for product in ledger.products(campaign):
        if product.reference is not None:
            yield Mention(campaign, product.reference, product)
    for result in ledger.readings(campaign):
        if result.field is not None:
            yield Mention(campaign, result.field, result)
