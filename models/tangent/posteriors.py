"""Posteriors of tangent surrogates: draws that are directions, draws that are networks, a trained mean."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.linear.shallow_slopes import ShallowSlopes
from fieldcraft.models.linear.wide_sine import WideProcess
from fieldcraft.models.numerics.batching import Moments
from fieldcraft.models.numerics.milestones import telling
from fieldcraft.models.observations import Scaling
from fieldcraft.models.surrogate import Function, Slopes
from fieldcraft.models.tangent.kernel import TangentKernel, column
from fieldcraft.models.tangent.process import TangentProcess, normals
from fieldcraft.models.tangent.weight_draws import in_blocks

# Numbers beyond which a process is not stacked with others: arithmetic then takes the time, and not calls.
_LARGEST = 2**18


@dataclass(frozen=True, eq=False)
class TangentBelief:
    """A conditioned process, and draws that are mean + factor * deviation: N(mean, factor^2 sigma^2) at each point.

    Args:
        process: Process conditioned on the results.
        factor: beta or nu, the size of a draw's deviation; 1 is the posterior itself.
        perturbed: True if the noise of the results is drawn too (see ``TangentProcess.deviations``).
        scaling: Map between targets and results.
        metrics: Metrics of the fit.
        remarks: Deviations from the options, in words.
        kept: Its state.
    """

    process: TangentProcess
    factor: float
    perturbed: bool
    scaling: Scaling
    metrics: Mapping[str, float]
    remarks: Mapping[str, str]
    kept: Mapping[str, Tensor]

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and factor^2 sigma^2 of the noise-free target at X (n, d), each (n,)."""
        mean, variance = self.process.mean_var(X)
        return mean, self.factor**2 * variance

    @cached_property
    def moment_slopes(self) -> ShallowSlopes | None:
        """See ``Differentiable``."""
        return self.process.slopes(self.factor)

    @cached_property
    def coarse(self) -> "TangentBelief":
        """Nearly the same moments, for a first look at many points: those of infinitely many neurons and some trials.

        Of another network, the linear model's own mean with the variance that some of the trials leave, where it has
        no trained one.
        """
        rows = telling(self.process.y.numpy())
        limit = self.process.limit(rows)
        if limit is None:
            return self._of_some(rows)
        return FirstLook(**{each.name: getattr(self, each.name) for each in fields(TangentBelief)}, limit=limit)

    def _of_some(self, rows: NDArray[np.intp]) -> "TangentBelief":
        return replace(self, process=self.process.some(rows))

    @property
    def form(self) -> Hashable:
        """See ``Stackable``; None for a large one."""
        return None if self.process.numbers > _LARGEST else (TangentBelief, self.process.form)

    def together(self, others: Sequence[Self]) -> Moments:
        """See ``Stackable``."""
        process = TangentProcess.stacked([self.process, *(each.process for each in others)])
        factor = column(each.factor for each in (self, *others))

        def moments(X: Tensor) -> tuple[Tensor, Tensor]:
            mean, variance = process.mean_var(X)
            return mean, factor**2 * variance

        return moments

    def slopes_together(self, others: Sequence[Self]) -> Slopes:
        """See ``StackableSlopes``."""
        known = [each.moment_slopes for each in (self, *others)]
        return ShallowSlopes.stacked([each for each in known if each is not None])

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q coherent draws, each one pass of the network a candidate."""
        deviations = self.process.deviations(q, rng, perturbed=self.perturbed)
        return [self.process.function(self.process.mean_direction + self.factor * each) for each in deviations]

    def fantasize(self, X: Tensor) -> Self:
        """Posterior conditioned on X (k, d) having been read at the mean, with the noise of a result."""
        return replace(self, process=self.process.fantasize(X))

    def information_gain(self) -> float:
        """1/2 log det(I + K / noise) of the tangent rows, in nats."""
        return self.process.information_gain()

    def state(self) -> dict[str, Tensor]:
        """State from which its surrogate restores it."""
        return dict(self.kept)


@dataclass(frozen=True, eq=False)
class FirstLook(TangentBelief):
    """A belief whose moments are those of a limit.

    Args:
        limit: The process of infinitely many neurons.
    """

    limit: WideProcess

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and factor^2 sigma^2 of the limit at X (n, d), each (n,)."""
        mean, variance = self.limit.mean_var(X)
        return mean, self.factor**2 * variance

    @cached_property
    def moment_slopes(self) -> None:
        """None: no search ascends by it."""

    @property
    def form(self) -> Hashable:
        """See ``Stackable``."""
        return self.limit.gain, self.limit.inputs.shape

    def together(self, others: "Sequence[FirstLook]") -> Moments:
        """See ``Stackable``."""
        limit = WideProcess.stacked([self.limit, *(each.limit for each in others)])
        factor = column(each.factor for each in (self, *others))

        def moments(X: Tensor) -> tuple[Tensor, Tensor]:
            mean, variance = limit.mean_var(X)
            return mean, factor**2 * variance

        return moments


@dataclass(frozen=True, eq=False)
class TangentPosterior(TangentBelief):
    """The process alone; predictions of a result given the others are known in closed form."""

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d) alone, one pass of the network a point."""
        return self.process.function(self.process.mean_direction)(X)

    def log_predictive(self) -> Tensor:
        """log density of each result given the others, shape (n,), by the process at its hyper-parameters."""
        return self.process.log_predictive()


@dataclass(frozen=True, eq=False)
class NetworkDraws(TangentBelief):
    """k trained networks, each one draw; mean and variance are the process's.

    Leaving a result out requires training again without it, so there is no ``log_predictive``.

    Args:
        members: Network i as a function.
        networks: k.
    """

    members: Callable[[int], Function]
    networks: int

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """Networks 0 to q - 1: they are independent draws already, so rng is not used.

        Raises:
            ValueError: there are fewer networks than q.
        """
        if q > self.networks:
            raise ValueError(
                f"{q} draws were asked of {self.networks} trained networks: set `networks` to the batch size or more."
            )
        return [in_blocks(self.members(i)) for i in range(q)]


@dataclass(frozen=True, eq=False)
class Trained:
    """x -> s(x) h(x/l; theta) + sqrt(c) a, s(x) = s_f / |phi_0(x/l)|: a network trained from the kernel's theta_0.

    Args:
        kernel: Of one network, or of c that are stacked.
        weights: (theta, a), shape (..., p + 1), or (..., 2p + 1) for an antisymmetric pair.
    """

    kernel: TangentKernel
    weights: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        """Value at X (n, d), shape (..., n)."""
        return self.scaled(X, self.kernel.factors(self.kernel.passes(X)))

    def scaled(self, X: Tensor, factors: Tensor) -> Tensor:
        """Value at X with known factors s(x), shape (..., n)."""
        inner = self.kernel.network.value(self.weights[..., :-1], X / self.kernel.scales)
        return factors * inner + self.kernel.root_constant * self.weights[..., -1:]


@dataclass(frozen=True, eq=False)
class TrainedMean(TangentBelief):
    """N(h(x), nu^2 sigma^2(x)) with a trained network's h (Neural-BO: Phan-Trong et al., 2023).

    Leaving a result out requires training again without it, so there is no ``log_predictive``.

    Args:
        mean: h; a ``Trained`` network, or its replacement.
        variance: ``exact``, or ``diagonal`` as in Neural-UCB and Neural-TS.
        kind: ``coherent``: one function, the mean plus nu times a deviation of the process. ``independent``: a normal
            number of its own at every point, as the papers draw; its minimum depends on how many points are scored.
    """

    mean: Function
    variance: Literal["exact", "diagonal"]
    kind: Literal["coherent", "independent"]

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """h and nu^2 sigma^2 at X (n, d), each (n,)."""
        return self._moments(self.process, self.mean, self.factor, X)

    @cached_property
    def moment_slopes(self) -> ShallowSlopes | None:
        """See ``Differentiable``; None with the diagonal variance, and with a mean that is no trained network."""
        if self.variance == "diagonal" or not isinstance(self.mean, Trained):
            return None
        return self.process.slopes(self.factor, self.mean.weights)

    @property
    def form(self) -> Hashable:
        """See ``Stackable``."""
        if self.process.numbers > _LARGEST or not isinstance(self.mean, Trained):
            return None
        return TrainedMean, self.process.form, self.variance, len(self.mean.weights)

    def together(self, others: Sequence[Self]) -> Moments:
        """See ``Stackable``."""
        parts = (self, *others)
        process = TangentProcess.stacked([each.process for each in parts])
        weights = torch.stack([each.mean.weights for each in parts if isinstance(each.mean, Trained)])
        return partial(self._moments, process, Trained(process.kernel, weights), column(each.factor for each in parts))

    def _moments(
        self, process: TangentProcess, mean: Function, factor: float | Tensor, X: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h and nu^2 sigma^2 of one, or of a stack; both use the network's rows."""
        passes = process.kernel.passes(X)
        factors = process.kernel.factors(passes)
        rows = process.kernel.joined(passes, factors)
        variance = process.regression.variance(rows) if self.variance == "exact" else process.diagonal_of(rows)
        return mean.scaled(X, factors) if isinstance(mean, Trained) else mean(X), factor**2 * variance

    def _of_some(self, rows: NDArray[np.intp]) -> TangentBelief:
        return self

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q draws of the stated kind.

        Raises:
            ValueError: a coherent draw was requested with the diagonal variance, for which no such function exists.
        """
        if self.kind == "coherent":
            if self.variance == "diagonal":
                raise ValueError(
                    "variance is diagonal and draw is coherent: no coherent function has the diagonal's variance; set "
                    "draw to independent, or variance to exact."
                )
            return [self._coherent(each) for each in self.process.deviations(q, rng, perturbed=self.perturbed)]
        return [self._independent(int(rng.integers(2**63))) for _ in range(q)]

    def _coherent(self, deviation: Tensor) -> Function:
        along = self.process.function(self.factor * deviation)
        return lambda X: self.mean(X) + along(X)

    def _independent(self, seed: int) -> Function:
        def function(X: Tensor) -> Tensor:
            mean, variance = self.mean_var(X)
            return mean + variance.sqrt() * torch.from_numpy(normals(X.detach().numpy(), seed))

        return function
