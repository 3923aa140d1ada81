"""A model of a campaign, restored from its checkpoint, and its predictions; imports torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldcraft.flows.steps.collocate import points_of
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import data_of, seen_by
from fieldcraft.flows.wiring.physics.networks import network_at
from fieldcraft.flows.wiring.tensors import as_state
from fieldcraft.flows.wiring.warm.kept import earlier_at
from fieldcraft.storage.records import Product

if TYPE_CHECKING:
    from fieldcraft.models.observations import Observations
    from fieldcraft.models.surrogate import Posterior

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LatestModel:
    """A trained model.

    Args:
        product: Product of its training.
        posterior: The model.
        data: Its training data.
    """

    product: Product
    posterior: "Posterior"
    data: "Observations"


def latest_model(site: Site) -> LatestModel | None:
    """The model that was trained last; None while none is.

    Raises:
        ValueError: the data have been corrected since, so that the checkpoint belongs to other data.
        storage.fields.FieldError: the field store has lost the checkpoint.
    """
    product = site.ledger.latest(site.name, "train")
    return None if product is None else model_of(site, product)


def model_of(site: Site, product: Product) -> LatestModel | None:
    """The model that a training made; None where it kept none.

    Raises:
        ValueError, storage.fields.FieldError: as ``latest_model``.
    """
    if product.reference is None:
        return None
    results = site.ledger.result_summaries(site.name)
    seen = seen_by(product, site.ledger.summaries(site.name), results)
    network = network_at(site.campaign, site.ledger)
    earlier = earlier_at(site.campaign, site.ledger)
    data = data_of(site.campaign, product, seen, points_of(site, product.iteration), network, earlier, results)
    posterior = site.campaign.algorithm.restore(data, as_state(site.fields.read(product.reference)))
    return LatestModel(product, posterior, data)


def predicted(posterior: "Posterior", X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the objective at encoded X (n, d), in its unit, each (n,)."""
    import torch

    with torch.no_grad():
        mean, variance = posterior.mean_var(torch.as_tensor(X))
    scaling = posterior.scaling
    return scaling.to_physical(mean.numpy()), scaling.sd * np.sqrt(variance.numpy())
