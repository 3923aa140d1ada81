"""Small networks from the design to the modes of its field, for fields whose pattern changes kind; no physics."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.field_members import FieldMembers, FieldMembersPosterior, LeftOut, shares
from fieldcraft.models.emulation.field_modes import COEFFICIENTS, LEAST, WEIGHTS, split, varying
from fieldcraft.models.emulation.field_posterior import densities
from fieldcraft.models.emulation.remainder import told_at_runs
from fieldcraft.models.emulation.slopes import differentiable
from fieldcraft.models.networks.ensembles import MisfitLoss, metrics_of
from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.networks.training import train
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.devices import device
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.surrogate import Report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.surrogates.field_pod import OfOutputs

# Parts of the trials; each member leaves out one.
_PARTS = 4
# Error of half of the results left out, in targets, from which on fields do not teach.
_MOST = 1.0
_SEEN = "seen"
_WORSE = "half of the results were foreseen no nearer than their standard deviation by members that had not seen them"


@dataclass(frozen=True)
class FieldEnsemble:
    """Outputs read from the fields of an ensemble of small networks, where no equation of the fields is stated.

    Each member has a network from the design to the coefficient of each mode of the stored fields (an operator network
    whose trunk is the modes: Lu et al., 2022), trained from weights of its own and tied to them (Pearce et al., 2020),
    on three quarters of the trials. Mean and variance are those of the outputs read from the members' fields, and each
    member is one draw. To the variance is added what makes four in five of the results lie within two standard
    deviations of what the members say that have not seen them.

    It needs no field to be a mixture of the others, as ``field_pod`` does: some fields may form patterns that no other
    has. Where half of the results are foreseen no nearer than their standard deviation by members that have not seen
    them, ``exact_gp`` learns from the outputs alone, and a remark says why; so it does up to three trials, where fields
    are all the same, and where a trial left none.

    Args:
        members: Number of members, at least 8 and the batch size.
        n_modes: Most modes that are kept, at least 1.
        width: Neurons in a hidden layer; there are two.
        noise: Standard deviation of a coefficient, as a share of its spread, to which the networks fit it.
        refinements: Damped Gauss-Newton steps of a network, at most.
        stand_in: Let ``exact_gp`` stand in where fields do not teach; else the fit is refused, as a candidate's is.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False
    uses_fields: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.FIELDS})

    members: int = 16
    n_modes: int = 10
    width: int = 32
    noise: float = 0.003
    refinements: int = 60
    stand_in: bool = True

    def __post_init__(self) -> None:
        for name, least in (("members", 2 * _PARTS), ("n_modes", 1), ("width", 1), ("refinements", 1)):
            refuse_below(name, getattr(self, name), least)
        refuse_non_positive("noise", self.noise)

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> FieldMembersPosterior | OfOutputs:
        """Train the networks together (see Surrogate.fit).

        Raises:
            ValueError: ``start`` is of other data, the loss became non-finite again after every restart, or fields do
                not teach and nothing stands in.
        """
        reason = _lacking(data)
        if reason is None:
            state = self._trained(data, rng, start, report)
            posterior, reason = self._judged(data, state)
            if reason is None:
                return posterior
        if not self.stand_in:
            raise ValueError(f"The fields are not used: {reason}.")
        return _noted(reason, ExactGP().fit(data, rng, None, report))

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> FieldMembersPosterior | OfOutputs:
        """The posterior whose state this was (see Surrogate.restore)."""
        if _SEEN not in state:
            return _noted(_lacking(data) or _WORSE, ExactGP().restore(data, state))
        refuse_other_data(data, state)
        return self._judged(data, state)[0]

    def _trained(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> dict[str, Tensor]:
        """The state of networks trained from fresh weights, or from the checkpoint ``start`` if it is one of theirs."""
        assert data.snapshots is not None
        begun = None if start is None or _SEEN not in start else start
        if begun is not None:
            refuse_other_data(data, begun)
        weights, coefficients = split(data.snapshots.values, self.n_modes)
        count = coefficients.shape[1]
        seen = shares(len(data), self.members, _PARTS, rng)
        network, place = self._network(data), device()
        anchor = network.initial(self.members * count, torch_generator(rng)).to(place)
        problem = MisfitLoss(
            network,
            torch.tensor(data.X).to(place),
            torch.tensor(np.tile((coefficients / _spread(coefficients)).T, (self.members, 1))).to(place),
            anchor,
            self.noise**2,
            torch.tensor(seen.repeat(count, axis=0), dtype=torch.float64).to(place),
        )
        kept = {
            **stamped(data),
            WEIGHTS: torch.tensor(weights),
            COEFFICIENTS: torch.tensor(coefficients),
            _SEEN: torch.tensor(seen),
        }
        state = State.begin(anchor) if begun is None else State.of(begun, anchor)
        schedule = Schedule(0, 0.01, 0.1, self.refinements)
        state = train(problem, state, schedule, report, lambda state: {**kept, **state.tensors()})
        return {**kept, **state.tensors(), "misfit": problem.rows(state.theta).square().mean().sqrt().cpu()}

    def _judged(self, data: Observations, state: Mapping[str, Tensor]) -> tuple[FieldMembersPosterior, str | None]:
        """The posterior of a state, and the reason why its fields do not teach if so."""
        snapshots = data.snapshots
        assert snapshots is not None
        weights, coefficients = state[WEIGHTS].numpy(), state[COEFFICIENTS].numpy()
        offset = snapshots.values.mean(axis=0)
        modes = np.tensordot((weights * _spread(coefficients)).T, snapshots.values - offset, 1)
        made = FieldMembers(snapshots, offset, modes, self._network(data), state["theta"], data.scaling)
        known = LeftOut.of(made.values(data.X), state[_SEEN].numpy().T, data.targets, data.noise_variance or 0.0)
        missed = float(np.median(np.abs(known.errors)))
        told = {**metrics_of(state), "modes": float(len(modes)), "left_out_error": missed, "rest_sd": known.rest**0.5}
        posterior = FieldMembersPosterior(
            members=lambda X: differentiable(made.values, X, stepped=snapshots.stepped).mT,
            transform=torch.eye(self.members, dtype=torch.float64),
            divisor=self.members - 1,
            noise=max(known.rest, data.noise_variance or 0.0),
            scaling=data.scaling,
            metrics=told,
            kept=state,
            within=lambda X: torch.full_like(X[:, 0], known.rest),
            remarks={
                "fields": f"{len(data)} fields in {len(modes)} modes, by {self.members} members; half of the results "
                f"that they have not seen are foreseen within {missed:.2g} of the spread"
            },
            densities=densities(known.errors, known.variance),
            of_fields=made,
            rest=known.rest,
            believed=torch.empty(0, data.X.shape[1], dtype=torch.float64) if told_at_runs(data) else None,
        )
        return posterior, None if missed < _MOST else _WORSE

    def _network(self, data: Observations) -> Network:
        return Network(data.X.shape[1], self.width, 2)


def _spread(coefficients: Array) -> Array:
    """Standard deviation of each coefficient (n, K), shape (K,)."""
    return np.asarray(coefficients.std(axis=0))


def _lacking(data: Observations) -> str | None:
    """Reason why no network is trained; None if some are."""
    if data.snapshots is None:
        return "not every trial left one from which its outputs can be read"
    if len(data) < LEAST:
        return f"there are {len(data)} trials, and {LEAST} teach how they differ"
    if not varying(data.snapshots.values).any():
        return "all are the same"
    return None


def _noted(reason: str | None, posterior: OfOutputs) -> OfOutputs:
    """The posterior of the outputs alone, with the reason why no field taught it."""
    return replace(posterior, remarks={**posterior.remarks, "fields": f"not used: {reason}"})
