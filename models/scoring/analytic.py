"""BoTorch's analytic acquisitions over any posterior with a mean and a variance, conditioned on pending trials."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DiagLinearOperator
from torch import Tensor

from fieldcraft.models.feasibility.constrained import about_objective
from fieldcraft.models.surrogate import Posterior


class _Marginals(Protocol):
    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]: ...


class PosteriorModel(Model):
    """A posterior in the form that BoTorch's analytic acquisitions expect.

    Args:
        beliefs: Any posterior; only ``mean_var`` is used, each point by itself.
    """

    def __init__(self, beliefs: "_Marginals") -> None:
        super().__init__()
        self._beliefs = beliefs

    @property
    def num_outputs(self) -> int:
        """Number of outputs, 1: the minimised objective."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of a batch of models: empty."""
        return torch.Size()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior:
        """Marginals of the noise-free objective at X (b, 1, d), as BoTorch's mean and variance (b, 1, 1)."""
        mean, variance = self._beliefs.mean_var(X.squeeze(-2))
        return GPyTorchPosterior(MultivariateNormal(mean.unsqueeze(-1), DiagLinearOperator(variance.unsqueeze(-1))))


class _Plane:
    """Beliefs at points that are themselves pairs of a mean and a standard deviation."""

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return X[:, 0], X[:, 1].square()


@dataclass(frozen=True, eq=False)
class AnalyticScore:
    """Score of an analytic acquisition; pending trials and earlier places count as read at their own mean.

    Args:
        posterior: Beliefs from the data.
        pending: Encoded points without a result, shape (k, d).
        acquisition: Function from a model, and the points (k, d) that it believes, to the BoTorch acquisition to
            maximise: a function of mean and standard deviation that falls with the mean and is quasiconvex in the two
            (see MomentScore).
        optimism: See MomentScore.
        before: Encoded points of the places before the one for which ``worth`` is computed, shape (j, d); None for
            none.
    """

    posterior: Posterior
    pending: Tensor
    acquisition: Callable[[Model, Tensor], AnalyticAcquisitionFunction]
    optimism: float | None = None
    before: Tensor | None = None
    # A place is asked about hundreds of times with the same points chosen: condition on them once.
    _built: dict[bytes | str, AnalyticAcquisitionFunction] = field(default_factory=dict, repr=False)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Acquisition at X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        return torch.as_tensor(self._for(chosen)(X.unsqueeze(-2)))

    def fantasized(self, chosen: Tensor) -> Posterior:
        """The posterior with pending points and those ``chosen`` (j, d) read at their mean."""
        points = torch.cat([self.pending, chosen.detach()])
        beliefs = about_objective(self.posterior)
        return beliefs.fantasize(points) if len(points) else beliefs

    def after(self, chosen: Tensor) -> "AnalyticScore":
        """The same score, with ``worth`` for the place after the points ``chosen`` (j, d)."""
        return replace(self, before=chosen.detach(), _built={})

    def worth(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Acquisition of means (n,) and standard deviations (n,), shape (n,)."""
        if "plane" not in self._built:
            points = self.pending if self.before is None else torch.cat([self.pending, self.before])
            self._built["plane"] = self.acquisition(PosteriorModel(_Plane()), points)
        return torch.as_tensor(self._built["plane"](torch.stack([mean, sd], dim=1).unsqueeze(-2)))

    def _for(self, chosen: Tensor) -> AnalyticAcquisitionFunction:
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            points = torch.cat([self.pending, chosen.detach()])
            self._built[key] = self.acquisition(PosteriorModel(self.fantasized(chosen)), points)
        return self._built[key]
