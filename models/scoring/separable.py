"""Score that is a sum of confidence bounds, each of the coordinates of one group."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fieldcraft.models.gaussian.grouped_kernel import Groups
from fieldcraft.models.gaussian.grouped_process import GroupedPosterior, Part
from fieldcraft.models.gaussian.kernel_bounds import Radial

# Least variance of a term, in units of its prior variance.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class ScoreTerm:
    """b sd - mean of one part, with b in units in which its prior variance is 1.

    Args:
        part: Process of the part, conditioned on pending trials and the places before.
        optimism: b >= 0.
    """

    part: Part
    optimism: float

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Worth of X (n, d_g), shape (n,), differentiable; the part is conditioned on the places before."""
        part = self.part
        apart = (X / part.length_scales).unsqueeze(1) - part.fit.X / part.length_scales
        # The root of a distance of zero has no finite slope.
        cross = Radial(part.fit.kernel).value(apart.square().sum(-1) + 1e-30).mT
        variance = part.factor.variance(torch.ones(len(X), dtype=X.dtype), cross)
        return self.worth(part.weights @ cross, variance.clamp_min(_LEAST_VARIANCE).sqrt())

    def worth(self, mean: Tensor, sd: Tensor) -> Tensor:
        """b sd - mean of means (n,) and standard deviations (n,)."""
        return self.optimism * sd - mean


@dataclass(frozen=True, eq=False)
class SeparableScore:
    """sum_g b_g sigma_g(x_g) - mu_g(x_g); pending trials and earlier places count as read at their own mean.

    Args:
        posterior: Beliefs from the data.
        pending: Encoded points without a result, shape (k, d).
        weights: b_g >= 0 of every group.
    """

    posterior: GroupedPosterior
    pending: Tensor
    weights: tuple[float, ...]
    # A place is asked about hundreds of times with the same points chosen: condition on them once.
    _built: dict[bytes, tuple[ScoreTerm, ...]] = field(default_factory=dict, repr=False)

    @property
    def groups(self) -> Groups:
        """The encoded coordinates of each group."""
        return self.posterior.groups

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Worth of X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        pairs = zip(self.terms(chosen), self.groups, strict=True)
        values = [term.value(X[:, list(columns)], slot, chosen) for term, columns in pairs]
        return torch.stack(values).sum(0)

    def terms(self, chosen: Tensor) -> tuple[ScoreTerm, ...]:
        """The score of each group, a function of its coordinates alone, given ``chosen`` (j, d)."""
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            points = torch.cat([self.pending, chosen.detach()])
            believed = self.posterior.fantasize(points) if len(points) else self.posterior
            parts = zip(believed.terms, self.weights, strict=True)
            self._built[key] = tuple(ScoreTerm(part, b * part.size) for part, b in parts)
        return self._built[key]
