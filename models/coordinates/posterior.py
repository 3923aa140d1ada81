"""Posteriors of models that see other coordinates than encoded points, as functions of encoded points."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.feasibility.classifier import log_success
from fieldcraft.models.feasibility.constrained import ConstrainedPosterior, Successes
from fieldcraft.models.observations import Scaling
from fieldcraft.models.pareto.posterior import SeveralObjectives
from fieldcraft.models.surrogate import Function, Posterior, means


@dataclass(frozen=True, eq=False)
class PosteriorOfDesigns:
    """Beliefs of a model, read at encoded points.

    Args:
        beliefs: Posterior in the coordinates that the model sees.
        coordinates: Those coordinates.
    """

    beliefs: Posterior
    coordinates: ModelCoordinates

    @property
    def scaling(self) -> Scaling:
        """Scaling of the beliefs."""
        return self.beliefs.scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the beliefs."""
        return self.beliefs.metrics

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the beliefs; where they may count trials, with how many each result makes."""
        remarks, orders = self.beliefs.remarks, len(self.coordinates.space.folds.exchanges)
        if not remarks or orders == 1:
            return remarks
        return {**remarks, "orders": f"a result is a trial in each of up to {orders} orders of exchangeable blocks"}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) at encoded X (n, d)."""
        return self.beliefs.mean_var(self.coordinates(X))

    def mean(self, X: Tensor) -> Tensor:
        """Mean (n,) at encoded X (n, d) alone."""
        return means(self.beliefs, self.coordinates(X))

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions of encoded points."""
        return [self._read(function) for function in self.beliefs.draw(q, rng)]

    def fantasize(self, X: Tensor) -> "PosteriorOfDesigns":
        """The beliefs as if encoded X (k, d) had been read at their mean."""
        return replace(self, beliefs=self.beliefs.fantasize(self.coordinates(X)))

    def state(self) -> dict[str, Tensor]:
        """State of the beliefs."""
        return self.beliefs.state()

    def _read(self, function: Function) -> Function:
        return lambda X: function(self.coordinates(X))


@dataclass(frozen=True, eq=False)
class SuccessesOfDesigns:
    """Beliefs about which designs give a result, read at encoded points."""

    beliefs: Successes
    coordinates: ModelCoordinates

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the beliefs."""
        return self.beliefs.metrics

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the beliefs."""
        return self.beliefs.remarks

    def latent(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the latent function at encoded X (n, d)."""
        return self.beliefs.latent(self.coordinates(X))

    def log_probability(self, X: Tensor) -> Tensor:
        """log p(success) at encoded X (n, d), shape (n,)."""
        return log_success(*self.latent(X))

    def state(self) -> dict[str, Tensor]:
        """State of the beliefs."""
        return self.beliefs.state()


def of_designs(posterior: Posterior, coordinates: ModelCoordinates) -> Posterior:
    """Beliefs in the coordinates that models see, as beliefs at encoded points; each part of several by itself."""
    if isinstance(posterior, ConstrainedPosterior):
        hidden = posterior.hidden
        return replace(
            posterior,
            objective=of_designs(posterior.objective, coordinates),
            constraints=tuple(of_designs(each, coordinates) for each in posterior.constraints),
            hidden=None if hidden is None else SuccessesOfDesigns(hidden, coordinates),
        )
    if isinstance(posterior, SeveralObjectives):
        return replace(posterior, parts=tuple(of_designs(each, coordinates) for each in posterior.parts))
    return PosteriorOfDesigns(posterior, coordinates)


def of_model(posterior: Posterior) -> Posterior:
    """The beliefs that were given to ``of_designs``."""
    if isinstance(posterior, ConstrainedPosterior):
        hidden = posterior.hidden
        return replace(
            posterior,
            objective=of_model(posterior.objective),
            constraints=tuple(of_model(each) for each in posterior.constraints),
            hidden=hidden.beliefs if isinstance(hidden, SuccessesOfDesigns) else hidden,
        )
    if isinstance(posterior, SeveralObjectives):
        return replace(posterior, parts=tuple(of_model(each) for each in posterior.parts))
    return posterior.beliefs if isinstance(posterior, PosteriorOfDesigns) else posterior
