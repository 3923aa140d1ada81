"""Reproduction of a step's product from the ledger, to be compared bit for bit with the recorded one.

Collocation points follow from the seed alone. A model follows from its results, its collocation points, the seed and
the number of threads. On another machine, or with other versions of packages, it may differ.
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
    """Reproduce the dataset of a product.

    Raises:
        ValueError: the data differ from the recorded ones, or the model cannot be trained on them.
        storage.fields.FieldDamaged: the collocation points that the model was trained on are damaged.
    """
    if product.step == "collocate":
        return points_for(site, product.iteration)
    return _trained(site, product)


def _trained(site: Site, product: Product) -> "xr.Dataset":
    name, iteration = site.name, product.iteration
    seen = seen_by(product, site.ledger.summaries(name), site.ledger.result_summaries(name))
    data = data_of(site.campaign, product, seen, points_of(site, iteration))
    if data.digest != (saw := Trained.of(product).data_digest):
        raise ValueError(f"it saw the data {saw}, and the ledger has {data.digest} now")
    rng = stream(site.campaign.spec.seed, iteration, Use.TRAIN)
    return as_dataset(site.campaign.algorithm.fit(data, rng, None, lambda step, metrics, state: None).state())
