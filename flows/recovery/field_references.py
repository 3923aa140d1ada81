"""References to fields in a ledger, and the records that hold them."""

from collections.abc import Iterator
from dataclasses import dataclass

from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import FieldRef, Product, Result


@dataclass(frozen=True)
class FieldReference:
    """A reference to a field, which must be in the store.

    Args:
        campaign: Name of its campaign.
        reference: Reference of the field.
        by: The product of a step, or the result of a trial, that refers to it.
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


def field_references(ledger: Ledger, campaign: str) -> Iterator[FieldReference]:
    """The field references of a campaign: its products' in order of iterations, then its results'."""
    for product in ledger.products(campaign):
        if product.reference is not None:
            yield FieldReference(campaign, product.reference, product)
    for result in ledger.campaign_results(campaign):
        if result.field is not None:
            yield FieldReference(campaign, result.field, result)
