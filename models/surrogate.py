"""Protocols of a surrogate and of its posterior."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from fieldcraft.models.observations import Array, Observations, Physics, Scaling
from fieldcraft.models.snapshots import Snapshots

Function = Callable[[Tensor], Tensor]
"""A function of encoded points, (n, d) -> (n,), differentiable in its argument."""


@runtime_checkable
class SlopedFunction(Protocol):
    """A function that knows its gradient in closed form, which is faster than the automatic one."""

    @property
    def coarse(self) -> Function:
        """A function of nearly the same values at less cost, for a first look at many points; with no gradient."""
        ...

    def __call__(self, X: Tensor) -> Tensor:
        """Values (n,) at X (n, d), differentiable in X."""
        ...

    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d)."""
        ...


Report = Callable[[int, Mapping[str, float], Callable[[], dict[str, Tensor]]], None]
"""Called now and then during a fit with (step, metrics, checkpoint); ``checkpoint()`` builds the state on demand."""


def no_report(step: int, metrics: Mapping[str, float], checkpoint: Callable[[], dict[str, Tensor]]) -> None:
    """Report that keeps nothing, for a fit whose progress is not needed."""


class Posterior(Protocol):
    """A fitted surrogate: beliefs about the minimised, standardised objective (``Observations.targets``).

    All values are float64 tensors on the CPU. Everything but ``draw`` is deterministic; a posterior never changes.
    """

    @property
    def scaling(self) -> Scaling:
        """Map between its values and physical ones."""
        ...

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the fit (loss or log likelihood, noise, residual, ...), finite floats by name."""
        ...

    @property
    def remarks(self) -> Mapping[str, str]:
        """Notes for people on how it was made, in words by name: a choice, a fallback; mostly empty."""
        ...

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) >= 0 of the noise-free objective at X (n, d), differentiable in X."""
        ...

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q coherent functions from the posterior; the same state of rng gives the same functions.

        Raises:
            ValueError: the posterior cannot give q independent draws.
        """
        ...

    def fantasize(self, X: Tensor) -> "Posterior":
        """The posterior as if X (k, d) had been observed with results equal to the mean there.

        The mean is unchanged and the variance does not grow. A posterior whose draws are independent by construction
        and that cannot be conditioned may return itself, and must document it.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Tensors that ``Surrogate.restore`` needs besides the data."""
        ...


@dataclass(frozen=True, eq=False)
class MomentsWithSlopes:
    """Moments at n points, with their gradients by the points.

    Those of c posteriors that are evaluated together have an axis for them in front.

    Args:
        mean: Shape (n,).
        variance: Shape (n,), >= 0.
        by_mean: Gradient of the mean, shape (n, d).
        by_variance: Gradient of the variance, shape (n, d); zero where the variance is cut off at 0.
    """

    mean: Array
    variance: Array
    by_mean: Array
    by_variance: Array

    def of(self, which: int | slice) -> "MomentsWithSlopes":
        """The moments of one of the posteriors, or of some."""
        return MomentsWithSlopes(self.mean[which], self.variance[which], self.by_mean[which], self.by_variance[which])


Slopes = Callable[[Tensor], MomentsWithSlopes]
"""Function from points (n, d) to the moments of a posterior and their gradients."""


@runtime_checkable
class Differentiable(Protocol):
    """A posterior that may know the gradients of its moments in closed form, which is faster than automatic ones."""

    @property
    def moment_slopes(self) -> Slopes | None:
        """The moments of ``mean_var`` with their gradients; None if it does not know them."""
        ...


def slopes_of(posterior: Posterior) -> Slopes | None:
    """The moments of a posterior with their gradients in closed form, if it knows them."""
    return posterior.moment_slopes if isinstance(posterior, Differentiable) else None


@runtime_checkable
class Screening(Protocol):
    """A posterior with a cheaper form of itself."""

    @property
    def coarse(self) -> "Posterior":
        """A posterior of nearly the same moments, for a first look at many points."""
        ...


def coarse(posterior: Posterior) -> Posterior:
    """The cheaper form of a posterior, or itself if it has none."""
    return posterior.coarse if isinstance(posterior, Screening) else posterior


class Moments(Protocol):
    """Beliefs at each point by itself."""

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) >= 0 at X (n, d), differentiable in X."""
        ...


@runtime_checkable
class Means(Protocol):
    """A posterior whose mean alone is cheaper than both moments."""

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at X (n, d)."""
        ...


def means(posterior: Moments, X: Tensor) -> Tensor:
    """Mean (n,) of a posterior at X (n, d), without its variance where that costs less."""
    return posterior.mean(X) if isinstance(posterior, Means) else posterior.mean_var(X)[0]


@runtime_checkable
class LeaveOneOut(Protocol):
    """A posterior with the predictive density of each result given the others in closed form."""

    def log_predictive(self) -> Tensor:
        """log p(t_i | all t_j, j != i) of every target it was fitted to, shape (n,), at its fitted hyper-parameters.

        Density of the result (noise included) in standardised target units, so that surrogates fitted to the same data
        can be compared by the sum (Rasmussen and Williams, 2006, section 5.4.2).
        """
        ...


@runtime_checkable
class Informed(Protocol):
    """A posterior that knows its information gain."""

    def information_gain(self) -> float:
        """gamma = 1/2 log det(I + K / noise), in nats, of the results it is conditioned on (Srinivas et al., 2010)."""
        ...


@dataclass(frozen=True, eq=False)
class Minorants:
    """Proven lower bounds of a minimised objective, in its unit.

    Args:
        best: The best result.
        values: Function from encoded designs (m, d) to a lower bound at each, shape (m,).
        over: Function from designs (m, d), points (m, v, d) and flags (m, v) to a lower bound for the convex hull of
            the flagged points of each of the m sets, shape (m,); the better the nearer they are to the design.
    """

    best: float
    values: Callable[[Array], Array]
    over: Callable[[Array, Array, Array], Array]


@runtime_checkable
class BoundedBelow(Protocol):
    """A posterior that may know proven lower bounds of the objective."""

    @property
    def minorants(self) -> Minorants | None:
        """The bounds; None where it knows none."""
        ...


@runtime_checkable
class TakesEmulator(Protocol):
    """A surrogate that may also learn from ``Observations.emulators``."""

    @property
    def uses_emulator(self) -> bool:
        """True if it does where the problem has an emulator."""
        ...


@runtime_checkable
class TakesEarlier(Protocol):
    """A surrogate that may also learn from ``Observations.earlier``."""

    @property
    def uses_earlier(self) -> bool:
        """True if it does where a campaign names an earlier one."""
        ...


@runtime_checkable
class TakesLevels(Protocol):
    """A surrogate that may also learn from ``Observations.lower``."""

    @property
    def uses_levels(self) -> bool:
        """True if it does where the simulator has levels."""
        ...


@runtime_checkable
class TakesFields(Protocol):
    """A surrogate that may also learn from ``Observations.snapshots``."""

    @property
    def uses_fields(self) -> bool:
        """True if it does where the problem states the fields."""
        ...


@runtime_checkable
class Resolving(Protocol):
    """A surrogate some of whose options stand for defaults that depend on others."""

    @property
    def resolved(self) -> Mapping[str, Any]:
        """The options in force, by name."""
        ...


@runtime_checkable
class PredictsFields(Protocol):
    """A posterior that knows the fields from which the output is read."""

    @property
    def snapshots(self) -> Snapshots:
        """Fields that were seen, and their grid."""
        ...

    def field_moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the fields at X (n, d), each (n, fields, cells), in their units."""
        ...


@runtime_checkable
class PartOfOthers(Protocol):
    """A posterior that stands for another one: that of the chosen candidate, or of the objective beside constraints."""

    @property
    def of_objective(self) -> Posterior:
        """The other one."""
        ...


def predicting_fields(posterior: Posterior) -> PredictsFields | None:
    """The posterior of fields that a posterior rests on; None if it knows no field."""
    while isinstance(posterior, PartOfOthers):
        posterior = posterior.of_objective
    return posterior if isinstance(posterior, PredictsFields) else None


@runtime_checkable
class TakesGradients(Protocol):
    """A surrogate that may also learn from ``Observations.gradients``."""

    @property
    def uses_gradients(self) -> bool:
        """True if it does where simulations return them."""
        ...


@runtime_checkable
class TakesSomeEquations(Protocol):
    """A surrogate that uses physics but cannot learn from every equation; campaigns with another are refused."""

    def refuse(self, physics: Physics) -> None:
        """Accept an equation that it can learn from.

        Raises:
            ValueError: it cannot learn from the equation; states the reason.
        """
        ...


@runtime_checkable
class WeighsResults(Protocol):
    """A surrogate that may take the standard deviations which single results state (``Observations.sds``) as noise."""

    @property
    def weighs_results(self) -> bool:
        """True if it does."""
        ...


class Surrogate(Protocol):
    """A model of the objective: a frozen description whose fit is returned and never kept.

    Attributes:
        uses_physics: True if it also learns from ``Observations.physics``, if the problem states an equation.

    In ``requires`` (see ``Capability``) it may state that it cannot be fitted without an EQUATION, and in ``provides``
    that its posteriors are EXACT, GROUPED or INFORMED. One that uses physics and cannot learn from every equation is
    ``TakesSomeEquations``.
    """

    uses_physics: ClassVar[bool]

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> Posterior:
        """Fit to data.

        Args:
            data: Observations to learn from.
            rng: The only source of randomness.
            start: Checkpoint of an interrupted fit of the same data with the same rng, continued bit for bit; or None.
            report: Called with the progress from time to time; may ask for a checkpoint.

        Raises:
            ValueError: the data lacks something this surrogate needs, or the fit cannot be made finite.
        """
        ...

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> Posterior:
        """The posterior restored from ``state``, for the data it was fitted to: identical to the bit.

        Raises:
            ValueError: the state belongs to other data or to another surrogate.
        """
        ...


@runtime_checkable
class FitsTogether(Surrogate, Protocol):
    """A surrogate that fits several outputs of the same trials in less time together than one after the other."""

    def at_once(self, data: Observations) -> int:
        """Largest number of outputs, >= 1, that it fits together if they are of the trials of ``data``."""
        ...

    def fit_together(
        self,
        data: Sequence[Observations],
        rngs: Sequence[np.random.Generator],
        start: Mapping[str, Tensor] | None,
        report: Report,
    ) -> Sequence[Posterior]:
        """Fit each output with the randomness of its own: to rounding, the posteriors that ``fit`` gives one by one.

        Args:
            data: Observations of each output, at the same designs.
            rngs: The only source of randomness of each output.
            start: Checkpoint of an interrupted fit of the same data with the same rngs, continued bit for bit; or None.
            report: Called with the progress of all outputs.

        Raises:
            ValueError: as from ``fit``.
        """
        ...
