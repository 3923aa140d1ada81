"""Before the first design: read the results of the earlier campaigns, and keep them under their digest."""

from typing import TYPE_CHECKING

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.products import Warmed
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.warm.kept import BEFORE, as_stored
from fieldcraft.flows.wiring.warm.sources import read_source
from fieldcraft.storage.records import Product

if TYPE_CHECKING:
    import xarray as xr


def keep(site: Site) -> Product:
    """Store the results that the earlier campaigns of a campaign have now; later ones of theirs change nothing.

    Raises:
        flows.errors.InputError: one of them cannot be read, or is of other variables.
    """
    known = site.ledger.product(site.name, BEFORE, "warm_start")
    if known is not None:
        return known
    found = [read_source(site.campaign, source) for source in site.campaign.spec.warm_start]
    reference = site.fields.write(f"{site.name}-warm-start", as_stored(found))
    made = Warmed(until=tuple(each.until for each in found), results=tuple(len(each.X) for each in found))
    for source, each in zip(site.campaign.spec.warm_start, found, strict=True):
        tell("warm start", campaign=source.campaign, results=len(each.X), outside=each.outside)
    return site.ledger.note(site.name, BEFORE, "warm_start", made.payload(), reference)


def read_again(site: Site, product: Product) -> "xr.Dataset":
    """The same results, from the ledgers of the earlier campaigns.

    Raises:
        flows.errors.InputError: one of them cannot be read any more.
    """
    until = Warmed.of(product).until
    sources = zip(site.campaign.spec.warm_start, until, strict=True)
    return as_stored([read_source(site.campaign, source, last) for source, last in sources])
