"""Fit of the tangent surrogates with trained networks: its course, its checkpoints and its restoration."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.networks.least_squares import Schedule, State
from fieldcraft.models.numerics.checks import refuse_non_positive
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Function, Report
from fieldcraft.models.tangent.convolution import Convolution
from fieldcraft.models.tangent.features import TangentFeatures
from fieldcraft.models.tangent.kernel import Hyperparameters
from fieldcraft.models.tangent.posteriors import TangentBelief, TangentPosterior
from fieldcraft.models.tangent.settings import TangentSettings
from fieldcraft.models.tangent.training import Family, Start, trained

# Numbers of each array of networks that are trained together: trials times neurons, or their Gram matrices. More leave
# the cache, and the memory that a fit may take is counted for one output.
_MOST = 2**18


@dataclass(frozen=True, kw_only=True)
class TrainedTangent(TangentSettings):
    """Options of a tangent surrogate whose networks are trained: Levenberg-Marquardt on the n x n Gram matrix, or Adam.

    Args:
        steps: Adam steps (the papers' gradient descent); 0 for none.
        rate: Adam's step size.
        refinements: Levenberg-Marquardt steps, after Adam.

    Raises:
        ValueError: an option is out of range (see ``TangentSettings`` for the others).
    """

    steps: int = 0
    rate: float = 0.001
    refinements: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_non_positive("rate", self.rate)
        if min(self.steps, self.refinements) < 0 or self.steps + self.refinements == 0:
            raise ValueError(
                f"steps is {self.steps} and refinements is {self.refinements}: give numbers >= 0, not both 0."
            )

    @property
    def trainings(self) -> int:
        """Number of networks: one."""
        return 1

    def length(self, data: Observations) -> int:
        """Number of the last step that a fit to data reports."""
        return self.steps + self.refinements

    @abstractmethod
    def begin(self, data: Observations, shape: TangentFeatures, noise: float, generator: torch.Generator) -> Start:
        """The randomness of all trainings."""

    @abstractmethod
    def finished(self, linear: TangentPosterior, start: Start, members: "Members | None") -> TangentBelief:
        """The posterior, from the linear model's and the trained networks (None above ``n_exact`` trials)."""

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> TangentBelief:
        """Fit the hyper-parameters and train, or continue from the checkpoint ``start`` (see Surrogate.fit).

        A network whose training stays non-finite is replaced by the linear model's closed form, and a remark states
        this. Above ``n_exact`` trials no network is trained, and the linear model is used. From the state of a finished
        fit the posterior is restored.

        Raises:
            ValueError: ``start`` is of other data, the fit would need more than ``memory_gb``, or no hyper-parameters
                have a finite likelihood.
        """
        if start is not None:
            refuse_other_data(data, start)
            if "linear" in start:
                return self.restore(data, start)
        shape = self.shape(data)
        found, reached = self.fit_kernel(data, shape)
        begun = self.begin(data, shape, found.noise, torch_generator(rng)) if start is None else Start.of(start)
        kept = _kept(data, found, reached, begun)
        if len(data) <= self.n_exact:
            kept |= self._train(data, Family(self.kernel(shape, begun.theta, found), begun), found, kept, start, report)
        posterior = self.restore(data, kept)
        report(self.length(data), posterior.metrics, posterior.state)
        return posterior

    def at_once(self, data: Observations) -> int:
        """See ``FitsTogether``."""
        if len(data) > self.n_exact:
            return 1
        shape = self.shape(data)
        patches = shape.pixels * shape.channels if isinstance(shape, Convolution) else 0
        return max(1, _MOST // (len(data) * max(shape.width, patches, len(data)) * self.trainings))

    def fit_together(
        self,
        data: Sequence[Observations],
        rngs: Sequence[np.random.Generator],
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> list[TangentBelief]:
        """Train the networks of all outputs together, or continue from ``start`` (see ``FitsTogether`` and ``fit``)."""
        shape, each = self.shape(data[0]), self.trainings
        kernels = self.fit_kernels(data, shape)
        rows = [slice(each * i, each * (i + 1)) for i in range(len(data))]
        if start is None:
            told = zip(data, kernels, rngs, strict=True)
            begun = [self.begin(own, shape, found.noise, torch_generator(rng)) for own, (found, _), rng in told]
        else:
            begun = [Start.of(start).some(own) for own in rows]
        families = [Family(self.kernel(shape, b.theta, found), b) for b, (found, _) in zip(begun, kernels, strict=True)]
        targets = torch.tensor(np.repeat([own.targets for own in data], each, axis=0))
        noise = torch.tensor([found.noise for found, _ in kernels], dtype=torch.float64).repeat_interleave(each)
        X = torch.tensor(data[0].X)
        state = trained(Family.joined(families), X, targets, noise, self._schedule, start, report)
        posteriors = []
        for own, (found, reached), b, some in zip(data, kernels, begun, rows, strict=True):
            posteriors.append(self.restore(own, {**_kept(own, found, reached, b), **_ended(state.some(some))}))
        return posteriors

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> TangentBelief:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        shape, found, start = self.shape(data), Hyperparameters.of(state), Start.of(state)
        linear = TangentPosterior(
            process=self.process(data, shape, start.theta[0, : shape.size], found),
            factor=1.0,
            perturbed=True,
            scaling=data.scaling,
            metrics={"log_posterior": float(state["log_posterior"]), **found.metrics(), **_achieved(state)},
            remarks={**self.remarks(data, shape), **_mishaps(state)},
            kept=dict(state),
        )
        members = None
        if "linear" in state:
            family = Family(self.kernel(shape, start.theta, found), start)
            members = Members(family, state["theta"], state["linear"].expand(len(state["theta"])))
        return self.finished(linear, start, members)

    def _train(
        self,
        data: Observations,
        family: Family,
        found: Hyperparameters,
        kept: Mapping[str, Tensor],
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> dict[str, Tensor]:
        X, y = torch.tensor(data.X), torch.tensor(data.targets)
        state = trained(
            family,
            X,
            y,
            found.noise,
            self._schedule,
            start if start is not None and "counts" in start else None,
            lambda step, metrics, checkpoint: report(step, metrics, lambda: {**kept, **checkpoint()}),
        )
        return _ended(state)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.steps, self.rate, 1.0, self.refinements)


@dataclass(frozen=True, eq=False)
class Members:
    """Trained networks as functions.

    Args:
        family: Family of the networks.
        weights: (theta, a), shape (k, p + 1).
        linear: 1 if a network's weights are the linear model's, else 0, shape (k,).
    """

    family: Family
    weights: Tensor
    linear: Tensor

    def __len__(self) -> int:
        return len(self.weights)

    def function(self, i: int) -> Function:
        """Network i, (n, d) to (n,)."""
        alone, own = self.family.member(i), self.weights[i : i + 1]
        values = alone.linear if self.linear[i] else alone.values
        return lambda X: values(own, X)[0]


def _kept(data: Observations, found: Hyperparameters, reached: float, begun: Start) -> dict[str, Tensor]:
    """The part of a fit's state that is known before the training."""
    number = torch.tensor([reached], dtype=torch.float64)
    return {**stamped(data), **found.tensors(), "log_posterior": number, **begun.tensors()}


def _ended(state: State) -> dict[str, Tensor]:
    """The part of a fit's state that the training gives: ``linear`` is 1 for a network that is the linear model's."""
    return {**state.result(), "linear": state.lost.float().cpu()}


def _achieved(state: Mapping[str, Tensor]) -> dict[str, float]:
    if "linear" not in state:
        return {}
    return {"loss": float(state["loss"].mean()), "restarts": float(state["counts"][1])}


def _mishaps(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Remarks on failures of the training, in words."""
    if "linear" not in state or not int(state["counts"][1]):
        return {}
    restarts = f"training became non-finite and began again {int(state['counts'][1])} times"
    lost, k = int(state["linear"].sum()), len(state["linear"])
    if not lost:
        return {"training": restarts}
    which = "" if lost == k else f" for {lost} of {k} networks"
    return {"training": f"{restarts}; the linear model's closed form stands in{which}"}
