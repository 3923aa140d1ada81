"""The network of a campaign's emulator: its points and its weights, made once, before the first design."""

from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.machinery.progress import tell
from fieldcraft.flows.machinery.stopwatch import Clock
from fieldcraft.flows.products import Collocated, Emulated
from fieldcraft.flows.steps.leases import trainer_held
from fieldcraft.flows.steps.remote_training import Awaited, ask
from fieldcraft.flows.steps.train import CURVE_POINTS, Trainer, Unfinished, training_of
from fieldcraft.flows.wiring.context import EMULATING, Site, site_of
from fieldcraft.flows.wiring.physics.networks import EMULATOR, network_of, pool_of
from fieldcraft.flows.wiring.tensors import as_dataset
from fieldcraft.storage.records import FieldRef, Product

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from fieldcraft.models.emulation.parametric_network import Pool
    from fieldcraft.models.surrogate import Report


def collocate_emulator(site: Site) -> Product:
    """Store the collocation points of a campaign's network."""
    known = site.ledger.product(site.name, EMULATOR, "collocate")
    if known is not None:
        return known
    dataset = emulator_points(site)
    reference = site.fields.write(f"{site.name}-collocation-{EMULATOR}", dataset)
    made = Collocated("sobol", dataset.sizes["point"])
    tell("collocated", iteration=EMULATOR, points=made.points)
    return site.ledger.note(site.name, EMULATOR, "collocate", made.payload(), reference)


def emulator_points(site: Site) -> "xr.Dataset":
    """The collocation points of a campaign's network, drawn again: the same at every call."""
    import xarray as xr

    pool, stated = pool_of(site.campaign), site.campaign.problem.parametric
    assert stated is not None  # the campaign was accepted
    units = {f"units_{axis.name}": axis.unit for axis in stated.domain.axes}
    return xr.Dataset(
        {
            "points": (("point", "axis"), pool.places, {"axes": list(stated.domain.names), **units}),
            "designs": (("point", "variable"), pool.designs, {"variables": list(site.campaign.space.names)}),
        }
    )


def train_emulator(site: Site) -> Product | Awaited:
    """Train the network of a campaign on its stored points and store its weights, here or remotely.

    Raises:
        ValueError: the loss became non-finite.
        storage.fields.FieldError: the points are damaged or lost, or the store does not answer.
    """
    if (known := site.ledger.product(site.name, EMULATOR, "emulate")) is not None:
        return known
    fallback = None
    if site.campaign.settings.train is not None:
        answer = ask(site, EMULATOR, _points(site).digest)
        if isinstance(answer, Awaited):
            tell("training elsewhere", iteration=EMULATOR, what=answer.what, state=answer.state)
            return answer
        if (known := site.ledger.product(site.name, EMULATOR, "emulate")) is not None:
            return known
        fallback = answer.reason
    if fallback is None and site.ledger.trainer(site.name) is None:
        return _trained(site, Trainer())
    with trainer_held(site.ledger, site.name, break_lease=True):
        return _trained(site, Trainer(fallback=fallback))


def train_emulator_outside(home: str, name: str, points: str, who: str) -> Product | str:
    """Train the network of a campaign in a process that makes no pass, as ``train.train_outside`` does a model.

    Args:
        home: The stores' folder.
        name: Campaign.
        points: Digest of the collocation points.
        who: Name of the trainer for the record.

    Returns:
        The network, or the reason in one line why there is none.

    Raises:
        storage.ledger.LeaseHeld: another process trains for this campaign.
        storage.ledger.LeaseLost: a pass has stopped waiting.
        ValueError: the loss became non-finite.
    """
    ledger = site_of(home, name, None).ledger
    with trainer_held(ledger, name) as lease:
        site = site_of(home, name, lease.model_dump())
        if (known := site.ledger.product(name, EMULATOR, "emulate")) is not None:
            return known
        if _points(site).digest != points:
            return f"the points are others than those of this request ({points[:12]})"
        return _trained(site, Trainer(who))


def emulator_weights(site: Site, report: "Report", state: "dict[str, Tensor] | None" = None) -> "xr.Dataset":
    """The weights of a campaign's network, trained on its stored points from the beginning or from a checkpoint.

    The device is that of the computation (``models.numerics.devices``).
    """
    from fieldcraft.models.numerics.devices import device

    network = network_of(site.campaign, str(device()))
    done = network.train(state or network.begin(), _pool(site), report)
    return as_dataset({name: done[name] for name in ("theta", "step", "loss")})


def _trained(site: Site, trainer: Trainer) -> Product:
    from fieldcraft.models.numerics.devices import computing_on

    clock, points = Clock(), _points(site)
    # One thread, so that the weights are the same on every number of cores.
    with computing_on(site.campaign.settings.device, 0) as computing:
        unfinished = Unfinished(site.work / EMULATING, points.digest, computing.kind)
        weights = emulator_weights(site, unfinished.report, unfinished.load())
    reference = site.fields.write(f"{site.name}-emulator", weights)
    curve = unfinished.curve
    made = Emulated(
        collocation=points.digest,
        loss=float(curve[-1]["loss"]),
        curve=curve[:: max(1, len(curve) // CURVE_POINTS)],
        trained=training_of(trainer, computing),
        **clock.passed,
    )
    product = site.ledger.note(site.name, EMULATOR, "emulate", made.payload(), reference)
    unfinished.forget()
    tell("trained the emulator", iteration=EMULATOR, metrics={"loss": made.loss}, seconds=made.seconds)
    return product


def _points(site: Site) -> FieldRef:
    product = site.ledger.product(site.name, EMULATOR, "collocate")
    assert product is not None and product.reference is not None  # a pass collocates before it trains
    return product.reference


def _pool(site: Site) -> "Pool":
    from fieldcraft.models.emulation.parametric_network import Pool

    stored = site.fields.read(_points(site))
    return Pool(*(np.asarray(stored[name].values, dtype=np.float64) for name in ("points", "designs")))
