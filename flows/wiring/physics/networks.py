"""The network that a campaign may have as its emulator: what it is, its collocation points, and its fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.machinery.random_streams import Use, stream
from fieldcraft.flows.spec.campaign_file import EmulatorSpec
from fieldcraft.flows.wiring.physics.emulators import emulators_of, explained, no_emulator, users_of
from fieldcraft.physics.collocation import collocate
from fieldcraft.physics.domain import Axis, Domain
from fieldcraft.physics.parametric.statement import Numbers, ParametricEquation
from fieldcraft.physics.problem import Problem
from fieldcraft.physics.space import Continuous, SearchSpace
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.ledger import Ledger
from fieldcraft.storage.records import FieldRef

if TYPE_CHECKING:
    from torch import Tensor

    from fieldcraft.flows.wiring.campaign import Campaign
    from fieldcraft.models.emulation.parametric_network import ParametricNetwork, Pool

EMULATOR = 0
"""Iteration of a campaign's network and its points; designs of this iteration are chosen without a model."""
# Slots of the random streams.
_POINTS, _WEIGHTS = 0, 1
# Collocation points at which an equation is tried before a campaign begins.
_TRIED = 8


@dataclass(frozen=True, eq=False)
class NetworkFields:
    """Fields by a trained network, as ``physics.problem.Solve``.

    Args:
        network: The network.
        state: Its weights.
        digest: Digest of the stored weights.
    """

    network: "ParametricNetwork"
    state: "Mapping[str, Tensor]"
    digest: str

    def __call__(
        self, stated: ParametricEquation, designs: Numbers, cells: tuple[int, ...]
    ) -> Mapping[str, np.ndarray]:
        """Fields of the designs, whose variables are each (n, 1), at the centres of so many cells an axis."""
        given = {name: np.asarray(designs[name], dtype=np.float64) for name in self.network.space.names}
        return self.network.fields(self.state, self.network.space.coordinates(given), cells)


def network_of(campaign: "Campaign", device: str = "cpu") -> "ParametricNetwork":
    """The network of a campaign's emulator, before any training.

    Raises:
        ValueError: an option that no network has, or a variable that is not continuous.
    """
    assert campaign.spec.emulator is not None  # looked at by who calls
    return _network(campaign.problem, campaign.space, campaign.spec.emulator, campaign.spec.seed, device)


def _network(
    problem: Problem, space: SearchSpace, given: EmulatorSpec, seed: int, device: str = "cpu"
) -> "ParametricNetwork":
    from fieldcraft.models.emulation.parametric_network import ParametricNetwork

    assert problem.parametric is not None  # accepted by require_network
    return ParametricNetwork(
        problem.parametric,
        space,
        seed=int(stream(seed, EMULATOR, Use.EMULATE, _WEIGHTS).integers(2**63 - 1)),
        width=given.width,
        depth=given.depth,
        steps=given.steps,
        batch=given.batch,
        rate=given.rate,
        device=device,
    )


def pool_of(campaign: "Campaign") -> "Pool":
    """Collocation points of a campaign's network: scrambled Sobol points over the domain and the designs together.

    Where the designs keep to constraints they are drawn independently. The points follow from the campaign's seed.
    """
    from fieldcraft.models.emulation.parametric_network import Pool

    given, stated = campaign.spec.emulator, campaign.problem.parametric
    assert given is not None and stated is not None  # accepted by require_network
    designs = tuple(Axis(f"design {name}", -1.0, 1.0) for name in campaign.space.names)
    whole = Domain((*stated.domain.axes, *designs))
    rng = stream(campaign.spec.seed, EMULATOR, Use.EMULATE, _POINTS)
    points = collocate(whole, given.points, "sobol", rng)
    axes = len(stated.domain.axes)
    kept = campaign.space.sample(given.points, rng) if campaign.space.constraints else points[:, axes:]
    return Pool(points[:, :axes], kept)


def network_at(campaign: "Campaign", ledger: Ledger) -> NetworkFields | None:
    """Fields by the trained network of a campaign, read once by a process; None where it has none, or none yet.

    Raises:
        storage.fields.FieldError: the weights are damaged or lost, or the store does not answer.
    """
    if campaign.spec.emulator is None:
        return None
    product = ledger.product(campaign.name, EMULATOR, "emulate")
    if product is None or product.reference is None:
        return None
    parts = campaign.problem, campaign.space, campaign.spec.emulator, campaign.spec.seed
    return _read(campaign.settings.fields, product.reference.digest, *parts)


@lru_cache(maxsize=8)
def _read(
    place: Path | str, digest: str, problem: Problem, space: SearchSpace, given: EmulatorSpec, seed: int
) -> NetworkFields:
    from fieldcraft.flows.wiring.tensors import as_state

    # Weights are found by their digest alone.
    stored = fields_at(place).read(FieldRef(digest=digest, size=0))
    return NetworkFields(_network(problem, space, given, seed), as_state(stored), digest)


def accuracy(fields: NetworkFields, problem: Problem, X: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
    """Correlation of a network's first output with results, and mean and standard deviation of its error.

    Args:
        fields: The network's fields.
        problem: The problem, which reads the outputs from them.
        X: Encoded designs of n results, shape (n, d).
        outputs: The first output of each, in its unit, shape (n,).

    Returns:
        ``emulator_bias`` and ``emulator_error``, in the output's unit, from two results on; and, where neither is
        constant, ``emulator_correlation``.
    """
    if len(X) < 2:
        return {}
    found = emulators_of(problem, fields.network.space, fields)[0].predict(X)
    error = found - outputs
    told = {"emulator_bias": float(error.mean()), "emulator_error": float(error.std())}
    if np.ptp(found) > 0 and np.ptp(outputs) > 0:
        told["emulator_correlation"] = float(np.corrcoef(found, outputs)[0, 1])
    return told


def in_words(fields: NetworkFields, metrics: Mapping[str, float]) -> str:
    """A network for a trial's origin: its digest, its loss, and its accuracy where a model's metrics have it."""
    told = f"digest {fields.digest}, loss {float(fields.state['loss']):.3g}"
    if "emulator_error" not in metrics:
        return told
    told += f", error {metrics['emulator_bias']:.3g} +- {metrics['emulator_error']:.3g}"
    if "emulator_correlation" in metrics:
        told += f" and correlation {metrics['emulator_correlation']:.3f}"
    return f"{told} on the results"


def require_network(campaign: "Campaign") -> None:
    """Accept an emulator that is a network where the problem states an equation for one and something learns from it.

    Raises:
        InputError: the problem states no equation of its fields, or one that no network can be trained on, or has
            other than continuous variables; or no word of the algorithm uses an emulator.
    """
    given, problem = campaign.spec.emulator, campaign.problem
    if given is None:
        return
    kind = f"emulator: {given.kind!r}"
    if problem.parametric is None or type(problem).functional is Problem.functional:
        raise InputError(
            f"{kind} is trained on the equation of a problem's fields, and problem {campaign.spec.problem.kind!r} "
            "states none. Leave emulator out, or give the problem `parametric` and `functional`."
        )
    if (reason := no_emulator(problem, campaign.space)) is not None:
        raise InputError(f"{kind} cannot be used: {reason}. Leave emulator out.")
    if others := [variable.name for variable in campaign.space.variables if not isinstance(variable, Continuous)]:
        raise InputError(
            f"{kind} takes continuous variables alone, and others are {', '.join(others)}. Leave emulator out: the "
            "equation is then solved on its coarse grid."
        )
    if problem.parametric.nonlinear is not None:
        raise InputError(
            f"{kind} learns linear equations, and that of problem {campaign.spec.problem.kind!r} has nonlinear terms. "
            "Leave emulator out: the equation is then solved on its coarse grid."
        )
    if problem.parametric.domain.mask is not None:
        raise InputError(
            f"{kind} fills a whole box, and the domain of problem {campaign.spec.problem.kind!r} has a mask. Leave "
            "emulator out: the equation is then solved on the cells that the mask leaves."
        )
    if not users_of(campaign):
        raise InputError(
            f"{kind} is given, and {campaign.spec.algorithm.in_words} uses no emulator. Leave emulator out, or use "
            "the algorithm emulated or auto."
        )
    try:
        with explained(problem, "give its equation to a network"):
            _try(campaign)
    except (ValueError, TypeError) as error:
        of = campaign.spec.problem.kind
        raise InputError(f"{kind} cannot be trained on the equation of {of!r}: {error}") from error


def _try(campaign: "Campaign") -> None:
    """Put an untrained network into the equation at some places.

    Raises:
        ValueError: the residuals are not finite, or the equation has mixed derivatives.
    """
    import torch

    network = network_of(campaign)
    rng = np.random.default_rng(0)
    low, high = network.stated.domain.bounds
    where = torch.tensor(low + (high - low) * rng.random((_TRIED, len(low))))
    X = torch.tensor(rng.uniform(-1, 1, (_TRIED, campaign.space.dimension)))
    rows = network.residuals(network.begin()["theta"], where, X)
    if not bool(torch.isfinite(rows).all()):
        raise ValueError("its residuals are not finite at some places of its domain: correct its coefficients.")
