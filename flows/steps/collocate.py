"""Step 4, collocate: draw the points at which the equation is imposed, by address, and store them before use."""

from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.products import Collocated
from fieldcraft.flows.wiring.context import Site
from fieldcraft.physics.collocation import collocate as draw
from fieldcraft.storage.records import Product

if TYPE_CHECKING:
    import xarray as xr


def collocate(site: Site, iteration: int) -> Product | None:
    """Store the collocation set of an iteration; None where the surrogate uses no equation."""
    if site.campaign.known_physics is None:
        return None
    known = site.ledger.product(site.name, iteration, "collocate")
    if known is not None:
        return known
    settings = site.campaign.spec.algorithm.collocation
    dataset = points_for(site, iteration)
    reference = site.fields.write(f"{site.name}-collocation-{iteration}", dataset)
    tell("collocated", iteration=iteration, points=settings.n)
    made = Collocated(settings.scheme, settings.n)
    return site.ledger.note(site.name, iteration, "collocate", made.payload(), reference)


def points_for(site: Site, iteration: int) -> "xr.Dataset":
    """The collocation set of an iteration, drawn again: the same at every call."""
    import xarray as xr

    assert site.campaign.known_physics is not None  # else there is none
    domain, settings = site.campaign.known_physics[1], site.campaign.spec.algorithm.collocation
    rng = stream(site.campaign.spec.seed, iteration if settings.resample else 0, Use.COLLOCATE)
    points = draw(domain, settings.n, settings.scheme, rng)
    units = {f"units_{axis.name}": axis.unit for axis in domain.axes}
    return xr.Dataset({"points": (("point", "axis"), points, {"axes": list(domain.names), **units})})


def points_of(site: Site, iteration: int) -> np.ndarray | None:
    """The stored collocation points (r, d) of an iteration, in physical units."""
    product = site.ledger.product(site.name, iteration, "collocate")
    if product is None or product.reference is None:
        return None
    return np.asarray(site.fields.read(product.reference)["points"].values, dtype=np.float64)
