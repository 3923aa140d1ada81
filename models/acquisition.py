"""Protocols of an acquisition and of the score that it gives for one iteration."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Scale as Scale
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Posterior


class Score(Protocol):
    """The worth of a candidate for one place of a batch."""

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Worth of each row of X; higher is better.

        Args:
            X: Encoded candidates, shape (n, d); each row is judged by itself, not as a batch.
            slot: Number of the place of the batch that is filled, from 0.
            chosen: Encoded points already chosen for earlier places of this batch, shape (j, d).

        Returns:
            Values, shape (n,), differentiable in X; the same call gives the same values.
        """
        ...


@runtime_checkable
class DifferentiableScore(Score, Protocol):
    """A score with a gradient in closed form, which is faster than the automatic one."""

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d); see ``value``."""
        ...


@runtime_checkable
class ScreenedScore(Score, Protocol):
    """A score with a cheaper form, by which a search chooses the samples that it looks at."""

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value`` at X (n, d), shape (n,); arguments as for ``value``."""
        ...


@runtime_checkable
class RemarkedScore(Score, Protocol):
    """A score that weighs some places of a batch differently, which a person is told."""

    def remarks(self, slot: int) -> Mapping[str, str]:
        """Remarks on the design of a place, by name; none on most."""
        ...


@runtime_checkable
class LocalScore(Score, Protocol):
    """A score that may be searched about one point alone."""

    @property
    def searched_about(self) -> Tensor | None:
        """The encoded point, shape (d,); None for a search of the whole space."""
        ...


def centre_of(score: Score) -> Tensor | None:
    """The point (d,) about which a score is searched; None for the whole space."""
    return score.searched_about if isinstance(score, LocalScore) else None


@runtime_checkable
class PeakedScore(Score, Protocol):
    """A score that may have a peak so narrow that samples of the whole space miss it."""

    @property
    def peak(self) -> Tensor | None:
        """The encoded point (d,) about which that peak lies; None where none is expected."""
        ...

    @property
    def faint(self) -> float:
        """The least score that a search of the whole space has to find, so that the peak need not be looked for."""
        ...


class MomentFunction(Score, Protocol):
    """A score that is a function of mean and standard deviation at the candidate only.

    The function falls with the mean and is quasiconvex in the two: over a polygon of means and standard deviations its
    largest value is at a corner. A bound over a region needs no more than this.
    """

    @property
    def optimism(self) -> float | None:
        """b >= 0 if the score is b sd - mean; None if it is another function."""
        ...

    def worth(self, mean: Tensor, sd: Tensor) -> Tensor:
        """The score of means (n,) and standard deviations (n,), shape (n,), differentiable."""
        ...


@runtime_checkable
class MomentScore(MomentFunction, Protocol):
    """A function of the mean and standard deviation of a posterior."""

    def fantasized(self, chosen: Tensor) -> Posterior:
        """The posterior whose moments the score uses, given the points ``chosen`` (j, d) for earlier places."""
        ...

    def after(self, chosen: Tensor) -> MomentFunction:
        """The score as a function of mean and sd, given the points ``chosen`` (j, d) for earlier places."""
        ...


@runtime_checkable
class AnchoredScore(Score, Protocol):
    """A score that may be largest near some points, where samples of the whole space are few."""

    @property
    def anchors(self) -> Tensor | None:
        """Those encoded points, shape (m, d), m may be 0; None if it knows none."""
        ...


def anchors_of(score: Score) -> Tensor | None:
    """The points (m, d) near which a score may be largest; None if it knows none."""
    return score.anchors if isinstance(score, AnchoredScore) else None


@runtime_checkable
class SuggestedScore(Score, Protocol):
    """A score that knows points which may be its best, found otherwise than by samples."""

    @property
    def suggested(self) -> Tensor | None:
        """Those encoded points, shape (m, d); None if it knows none."""
        ...


def suggested_by(score: Score) -> Tensor | None:
    """Points (m, d) that may be the best of a score; None if it knows none."""
    return score.suggested if isinstance(score, SuggestedScore) else None


@runtime_checkable
class BoundedScore(AnchoredScore, Protocol):
    """A score that counts only where all of its excesses are <= 0; its anchors are points at or near which it does."""

    def excess(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Excesses at X (n, d), shape (n, k), differentiable in X; arguments as for ``value``."""
        ...


@runtime_checkable
class ViolationScore(Score, Protocol):
    """A score that is minus the sum of its positive violations if there are any, and >= 0 elsewhere."""

    def violations(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Smooth functions at X (n, d), shape (n, k), differentiable in X; arguments as for ``value``."""
        ...


@runtime_checkable
class Improving(Protocol):
    """An acquisition for which a ceiling on the score bounds the improvement over the best design."""

    def improvement(self, ceiling: float, posterior: Posterior, data: Observations) -> float:
        """Largest expected improvement >= 0 that is possible while no score is above ``ceiling``.

        Args:
            ceiling: A number that the score exceeds nowhere.
            posterior: The beliefs that were scored.
            data: The observations behind them.

        Returns:
            Largest expected distance of a design below the least posterior mean among the observed points, in
            standardised targets.
        """
        ...


class Acquisition(Protocol):
    """A rule that turns beliefs into the worth of a candidate: a frozen description.

    ``scale: ClassVar[Scale]`` is the kind of its score, which decides how a probability enters it; "free" if left out.

    A class states properties in ``provides`` (see ``Capability``): it keeps to the constraints of a
    ``ConstrainedPosterior`` itself (CONSTRAINED); its score is a ``MomentScore`` (OF_MOMENTS), and b sd - mean
    (OPTIMISTIC), or a ``SeparableScore`` (SEPARABLE). In ``requires`` it states that it needs a surrogate with EXACT or
    GROUPED posteriors.
    """

    def score(
        self, posterior: Posterior, data: Observations, pending: Tensor, q: int, rng: np.random.Generator
    ) -> Score:
        """The score for one iteration.

        Args:
            posterior: Beliefs about the minimised objective.
            data: The observations behind them.
            pending: Encoded points that were sent and have no result yet, shape (k, d).
            q: Number of places in the batch.
            rng: The only source of randomness.
        """
        ...
