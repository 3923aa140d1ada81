"""Reproduction of a step's product from the ledger, to be compared bit for bit with the recorded one.

Collocation points follow from the seed alone. A model follows from its results, its collocation points, the seed and
the number of threads. On another machine, or with other versions of packages, it may differ.
"""

from typing import TYPE_CHECKING

from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.products import Trained
from fieldcraft.flows.steps.acquire import foreseen_again
from fieldcraft.flows.steps.collocate import points_for, points_of
from fieldcraft.flows.steps.emulator.network import emulator_points, emulator_weights
from fieldcraft.flows.steps.warm.keep import read_again
from fieldcraft.flows.wiring.context import Site
from fieldcraft.flows.wiring.observations import data_of, seen_by
from fieldcraft.flows.wiring.physics.networks import EMULATOR, network_at
from fieldcraft.flows.wiring.tensors import as_dataset
from fieldcraft.flows.wiring.warm.kept import earlier_at
from fieldcraft.physics.space import Design
from fieldcraft.storage.records import Product, Trial

if TYPE_CHECKING:
    import xarray as xr


def remade(site: Site, product: Product) -> "xr.Dataset":
    """Reproduce the dataset of a product.

    Raises:
        flows.errors.InputError: an earlier campaign, whose results they are, cannot be read.
        ValueError: the data differ from the recorded ones, or the model cannot be trained on them.
        storage.fields.FieldDamaged: the collocation points that the model was trained on are damaged.
    """
    if product.step == "warm_start":
        return read_again(site, product)
    if product.step == "emulate":
        return _emulator(site)
    if product.step == "collocate" and product.iteration == EMULATOR:
        return emulator_points(site)
    if product.step == "collocate":
        return points_for(site, product.iteration)
    return _predicted(site, product) if product.step == "acquire" else _trained(site, product)


def _predicted(site: Site, product: Product) -> "xr.Dataset":
    """The fields that the iteration's model predicts of the designs as it proposed them."""
    trained = site.ledger.product(site.name, product.iteration, "train")
    designs = _proposed(site, product.iteration)
    found = None if trained is None else foreseen_again(site, trained, designs)
    if found is not None:
        return found
    raise ValueError(f"iteration {product.iteration} has no model of fields now")


def _proposed(site: Site, iteration: int) -> list[Design]:
    """Designs of an iteration by slot, as they were before any edit."""
    trials = [each for each in site.ledger.trials(site.name) if each.iteration == iteration and not each.imported]
    return [_unedited(site, trial) for trial in sorted(trials, key=lambda trial: trial.slot)]


def _unedited(site: Site, trial: Trial) -> Design:
    edits = (event for event in site.ledger.history(site.name, trial.id) if event.action == "edit")
    return trial.design if trial.revision == 1 else next(edits).details["was"]


def _emulator(site: Site) -> "xr.Dataset":
    from fieldcraft.models.numerics.devices import computing_on
    from fieldcraft.models.surrogate import no_report

    with computing_on(site.campaign.settings.device, 0):
        return emulator_weights(site, no_report)


def _trained(site: Site, product: Product) -> "xr.Dataset":
    name, iteration, results = site.name, product.iteration, site.ledger.result_summaries(site.name)
    seen = seen_by(product, site.ledger.summaries(name), results)
    known = network_at(site.campaign, site.ledger), earlier_at(site.campaign, site.ledger)
    data = data_of(site.campaign, product, seen, points_of(site, iteration), *known, results)
    if data.digest != (saw := Trained.of(product).data_digest):
        raise ValueError(f"it saw the data {saw}, and the ledger has {data.digest} now")
    rng = stream(site.campaign.spec.seed, iteration, Use.TRAIN)
    return as_dataset(site.campaign.algorithm.fit(data, rng, None, lambda step, metrics, state: None).state())
