"""Step 4, collocate: draw the points at which equation and conditions are imposed, by address, and store them."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.products import Collocated
from fieldcraft.flows.wiring.context import Site
from fieldcraft.physics.collocation import CollocationPoints, collocated
from fieldcraft.storage.records import Product

if TYPE_CHECKING:
    import xarray as xr

_SIDE = "side_"


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

    known, settings = site.campaign.known_physics, site.campaign.spec.algorithm.collocation
    assert known is not None  # else there is none
    address = site.campaign.spec.seed, iteration if settings.resample else 0, Use.COLLOCATE
    found = collocated(known.domain, known.conditions, settings.n, settings.scheme, partial(stream, *address))
    units = {f"units_{axis.name}": axis.unit for axis in known.domain.axes}
    described = {"axes": list(known.domain.names), **units}
    sides = {f"{_SIDE}{k}": ((f"{_SIDE}{k}_point", "axis"), side) for k, side in enumerate(found.sides, start=1)}
    return xr.Dataset({"points": (("point", "axis"), found.inside, described), **sides})


def points_of(site: Site, iteration: int) -> CollocationPoints | None:
    """The stored collocation points of an iteration, in physical units."""
    product = site.ledger.product(site.name, iteration, "collocate")
    if product is None or product.reference is None:
        return None
    stored = site.fields.read(product.reference)
    names = ["points", *(f"{_SIDE}{k}" for k in range(1, len(stored.data_vars)))]
    inside, *sides = (np.asarray(stored[name].values, dtype=np.float64) for name in names)
    return CollocationPoints(inside, tuple(sides))
