"""Products of a step made again from what the ledger says, to be compared with what is recorded, bit for bit.

Collocation points follow from the seed alone. A model follows from the results that it saw, its collocation points,
the seed and the number of threads: on another machine, or with other versions, it may come out otherwise.
"""

from typing import TYPE_CHECKING

from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.products import Trained
from fieldcraft.flows.steps.collocate import points_for, points_of
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import data_of, seen_by
from fieldcraft.flows.wiring.tensors import as_dataset
from fieldcraft.storage.records import Product

if TYPE_CHECKING:
    import xarray as xr


def remade(site: Site, product: Product) -> "xr.Dataset":
    """What the step of a product makes now.

    Raises:
        ValueError: the model complains about its data.
        storage.fields.FieldDamaged: the collocation points that a model saw are damaged themselves.
    """
    if product.step == "collocate":
        return points_for(site, product.iteration)
    return _trained(site, product)


def _trained(site: Site, product: Product) -> "xr.Dataset":
    name, iteration = site.name, product.iteration
    seen = seen_by(product, site.ledger.trials(name), site.ledger.readings(name))
    data = data_of(site.campaign, product, seen, points_of(site, iteration))
    if data.digest != (saw := Trained.of(product).data_digest):
        raise ValueError(f"it saw the data {saw}, and the ledger has {data.digest} now")
    rng = stream(site.campaign.spec.seed, iteration, Use.TRAIN)
    return as_dataset(site.campaign.algorithm.fit(data, rng, None, lambda step, metrics, state: None).state())
