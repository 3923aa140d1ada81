"""Expected improvement of the hypervolume of several objectives, in closed form and in logarithms."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning
from botorch.utils.multi_objective.hypervolume import infer_reference_point
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor

from fieldcraft.models.feasibility.constrained import ConstrainedPosterior, about_objective
from fieldcraft.models.numerics.milestones import thinned
from fieldcraft.models.observations import Observations
from fieldcraft.models.pareto.posterior import SeveralObjectives
from fieldcraft.models.scoring.criteria import LEAST_SD, LogImprovement, evaluated
from fieldcraft.models.scoring.gradients import automatic
from fieldcraft.models.scoring.incumbent import hopeful
from fieldcraft.models.surrogate import Posterior

# Of a cell whose ends promise the same improvement to rounding: its share of that.
_LEAST_SHARE = 1e-14
# Designs of the front near which a search begins, too.
_MOST_ANCHORS = 64


def several(posterior: Posterior, who: str) -> SeveralObjectives:
    """The beliefs about several objectives, taken out of those under unknown constraints.

    Raises:
        ValueError: they are about one objective.
    """
    beliefs = about_objective(posterior)
    if not isinstance(beliefs, SeveralObjectives):
        raise ValueError(f"The {who} weighs several objectives, and the problem has one: use the acquisition log_ei.")
    return beliefs


def believed_front(posterior: Posterior, data: Observations, points: Tensor) -> Tensor:
    """Posterior means that no other dominates, in targets, shape (p, m).

    As for one objective (``scoring.incumbent``) they are means, so that a lucky result is no part of the front. They
    are those of the observed points that are feasible (``ConstrainedPosterior.trials_feasible``), or of all if none is,
    and of points that count as read at their mean.

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
        points: Encoded points without a result that are believed, shape (k, d).
    """
    return _front(posterior, data, points)[1]


def _front(posterior: Posterior, data: Observations, points: Tensor) -> tuple[Tensor, Tensor]:
    """The designs (p, d) of ``believed_front``, and their means (p, m)."""
    designs, feasible = counted(posterior, data, points)
    with torch.no_grad():
        designs = designs[feasible]
        means = several(posterior, "front").means(designs)
        best = is_non_dominated(-means)
        return designs[best], means[best]


def counted(posterior: Posterior, data: Observations, points: Tensor) -> tuple[Tensor, Tensor]:
    """Designs (p, d) that were read or that count as read, and which of them may be on the front, shape (p,).

    Args:
        posterior: Beliefs from the data.
        data: At least one observation.
        points: Encoded points without a result that are believed, shape (k, d).
    """
    read, points = torch.tensor(data.X), hopeful(data, points)
    feasible, hoped = (torch.ones(len(each), dtype=torch.bool) for each in (read, points))
    if isinstance(posterior, ConstrainedPosterior):
        with torch.no_grad():
            known = posterior.trials_feasible(data)
            feasible = known if known.any() else feasible
            hoped = posterior.believed_feasible(points) if len(points) else hoped
    return torch.cat([read, points]), torch.cat([feasible, hoped])


def reference_point(beliefs: SeveralObjectives, front: Tensor) -> Tensor:
    """Worst targets that count, shape (m,): the stated references, and by BoTorch's rule those that are not stated.

    Args:
        beliefs: Beliefs about the objectives.
        front: Targets that no other dominates, shape (p, m).
    """
    inferred = -infer_reference_point(-_physical(beliefs, front))
    stated = [_minimised(beliefs, k, aim.reference) for k, aim in enumerate(beliefs.aims)]
    worst = torch.stack([inferred[k] if each is None else each for k, each in enumerate(stated)])
    signs = torch.tensor([part.scaling.sign for part in beliefs.parts], dtype=torch.float64)
    targets = [float(part.scaling.to_target(float(y))) for part, y in zip(beliefs.parts, worst * signs, strict=True)]
    return torch.tensor(targets, dtype=torch.float64)


def _minimised(beliefs: SeveralObjectives, k: int, reference: float | None) -> Tensor | None:
    sign = beliefs.parts[k].scaling.sign
    return None if reference is None else torch.tensor(sign * reference, dtype=torch.float64)


def _physical(beliefs: SeveralObjectives, front: Tensor) -> Tensor:
    """Targets (p, m) in the objectives' units, those that are maximised with their sign changed."""
    columns = [
        part.scaling.sign * part.scaling.to_physical(column.numpy())
        for part, column in zip(beliefs.parts, front.mT, strict=True)
    ]
    return torch.tensor(np.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class LogHypervolumeImprovement:
    """log E[gain in hypervolume], of independent Gaussian beliefs (Emmerich, Deutz and Klinkenberg, 2011).

    What no point of the front dominates within the reference is cut into cells [l, u]. With
    psi(t) = E[max(t - f_k, 0)] the expected gain in a cell is the product over k of psi(u_k) - psi(l_k). The sum over
    the cells and the differences are taken in logarithms, so that they and their gradients stay finite where all of
    them underflow (Ament et al., 2023).

    Args:
        levels: Ends of the cells along each objective, m tensors (e_k,), the first of which is -inf.
        low: Places of the cells' lower ends among the levels, shape (c, m).
        high: Places of their upper ends, shape (c, m).
    """

    levels: tuple[Tensor, ...]
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, front: Tensor, reference: Tensor) -> "LogHypervolumeImprovement":
        """The improvement on a front (p, m) within a reference point (m,); all in targets."""
        inside = front[(front < reference).all(dim=1)]
        cells = FastNondominatedPartitioning(ref_point=-reference, Y=-inside).get_hypercell_bounds()
        high, low = -cells[0], -cells[1]
        found = [torch.unique(torch.cat([low[:, k], high[:, k]]), return_inverse=True) for k in range(len(reference))]
        places = torch.stack([place for _, place in found], dim=1)
        return cls(tuple(level for level, _ in found), places[: len(low)], places[len(low) :])

    def __call__(self, mean: Tensor, sd: Tensor) -> Tensor:
        """The logarithm for means and standard deviations (n, m) > 0, shape (n,), differentiable once in both."""
        total = mean.new_zeros(len(self.low), len(mean))
        for k, levels in enumerate(self.levels):
            total = total + self._extent(levels, self.low[:, k], self.high[:, k], mean[:, k], sd[:, k])
        return total.logsumexp(dim=0)

    def _extent(self, levels: Tensor, low: Tensor, high: Tensor, mean: Tensor, sd: Tensor) -> Tensor:
        """log(psi(u) - psi(l)) of every cell at means and standard deviations (n,), shape (c, n)."""
        ends = levels[1:, None].expand(-1, len(mean))  # psi(-inf) is 0
        log_psi = evaluated(LogImprovement(ends.numpy()), mean.expand_as(ends), sd.expand_as(ends))
        above, below = log_psi[high - 1], log_psi[(low - 1).clamp_min(0)]
        share = (-torch.expm1(below - above)).clamp_min(_LEAST_SHARE).log()
        return above + torch.where((low > 0)[:, None], share, 0.0)


@dataclass(frozen=True, eq=False)
class HypervolumeScore:
    """log expected gain in hypervolume; pending points and earlier places count as read at their mean.

    Args:
        posterior: Beliefs from the data.
        data: The observations behind them.
        pending: Encoded points without a result, shape (k, d).
        reference: Worst targets that count, shape (m,).
    """

    posterior: Posterior
    data: Observations
    pending: Tensor
    reference: Tensor
    # A place is asked about hundreds of times with the same points chosen: cut the region into cells once.
    _built: dict[bytes, tuple[SeveralObjectives, LogHypervolumeImprovement]] = field(default_factory=dict, repr=False)

    @cached_property
    def anchors(self) -> Tensor:
        """Designs of the front (p, d), at most 64, evenly spaced among them."""
        designs, _ = _front(self.posterior, self.data, self.pending)
        return designs[torch.from_numpy(thinned(len(designs), _MOST_ANCHORS))]

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """The logarithm at X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        beliefs, improvement = self._for(chosen)
        mean, variance = beliefs.moments(X)
        return improvement(mean, variance.clamp_min(LEAST_SD**2).sqrt())

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d); those of the moments in closed form if they have one."""
        beliefs, improvement = self._for(chosen)
        at = beliefs.slopes(X)
        if at is None:
            return automatic(lambda points: self.value(points, slot, chosen), X)
        mean = torch.tensor(np.stack([each.mean for each in at], axis=1))
        variance = torch.tensor(np.stack([each.variance for each in at], axis=1))

        def worth(moments: Tensor) -> Tensor:
            return improvement(moments[:, 0], moments[:, 1].clamp_min(LEAST_SD**2).sqrt())

        values, by = automatic(worth, torch.stack([mean, variance], dim=1))
        each = [
            by[:, 0, k, None] * torch.from_numpy(one.by_mean) + by[:, 1, k, None] * torch.from_numpy(one.by_variance)
            for k, one in enumerate(at)
        ]
        return values, torch.stack(each).sum(dim=0)

    def _for(self, chosen: Tensor) -> tuple[SeveralObjectives, LogHypervolumeImprovement]:
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            points = torch.cat([self.pending, chosen.detach()])
            beliefs = several(self.posterior, "score")
            front = believed_front(self.posterior, self.data, points)
            believed = beliefs.fantasize(points) if len(points) else beliefs
            self._built[key] = believed, LogHypervolumeImprovement.of(front, self.reference)
        return self._built[key]
