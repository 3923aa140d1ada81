"""Boxes of a search space: the first ones, their halves, and cuts by known constraints."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.certified.curved_cuts import CurvedCuts
from fieldcraft.models.maximizer import SAME
from fieldcraft.models.numerics.point_sets import line_slack
from fieldcraft.models.observations import Array
from fieldcraft.physics.geometry.polytope import ON_PLANE
from fieldcraft.physics.space import Integer, SearchSpace
from fieldcraft.physics.structure.categories import counted

# A lattice point is taken for one where the index is off by less.
_OFF = 1e-6
_THICK = 4 * ON_PLANE
_ROUNDS = 2
"""How often every constraint tightens every side of a box."""

Corners = tuple[Tensor, Tensor]
"""Lower and upper corners of boxes, encoded, each (B, d)."""


@dataclass(frozen=True, eq=False)
class Region:
    """A search space as boxes.

    Args:
        roots: The boxes it consists of: one for each combination of levels of the categories.
        scales: Length scales, in units of which sides are compared, shape (d,).
        steps: Distance of neighbouring integers, shape (d,); 0 where a coordinate is continuous.
        normals: a of the constraints a . x <= b, shape (c, d); an equality is two of them.
        offsets: b with the tolerance within which a constraint counts as satisfied, shape (c,).
        curved: The quadratic constraints.
        gone: Points that cannot be chosen, shape (k, d); a box that is such a single point does not belong to the
            region.
        planes: The equalities.
    """

    roots: Corners
    scales: Tensor
    steps: Tensor
    normals: Tensor
    offsets: Tensor
    curved: CurvedCuts
    gone: Tensor
    planes: "Equalities"

    @classmethod
    def of(cls, space: SearchSpace, scales: Tensor, gone: Array) -> "Region":
        """The region of a space, on the device of the length scales (d,)."""
        (A, b), (E, e) = space.linear, space.equalities
        # An equality is two inequalities, between which there is room for rounding.
        A, b = np.concatenate([A, E, -E]), np.concatenate([b + 2 * line_slack(A, b), e + _THICK, _THICK - e])
        parts = (integer_steps(space), A, b, gone)
        steps, normals, offsets, points = (torch.tensor(part, device=scales.device) for part in parts)
        whole = torch.tensor(np.stack(_roots(space)), device=scales.device)
        curved = CurvedCuts.of(space.quadratic, scales.device)
        planes = Equalities.of(space, scales.device)
        region = cls((whole[0], whole[1]), scales, steps, normals, offsets, curved, points, planes)
        lower, upper, kept = region._cut(*region.roots)
        return replace(region, roots=(lower[kept], upper[kept]))

    def first(self, n: int) -> Corners:
        """The roots, halved until there are more than n / 2 boxes or all are points."""
        lower, upper = self.roots
        while 2 * len(lower) <= n and len(lower) and float((upper - lower).max()) > 0:
            (lower, upper), _ = self.halves(lower, upper)
        return lower, upper

    def halves(self, lower: Tensor, upper: Tensor) -> tuple[Corners, Tensor]:
        """Both halves of every box along its longest scaled side, cut by the constraints, without empty ones.

        Returns:
            Corners (b, d) with b <= 2 B, and the row of the box each comes from, shape (b,).
        """
        rows = torch.arange(len(lower), device=lower.device)
        side = ((upper - lower) / self.scales).argmax(1)
        low, high, step = lower[rows, side], upper[rows, side], self.steps[side]
        left = right = (low + high) / 2
        whole = step > 0
        index = ((left + 1) / step.clamp_min(SAME) + _OFF).floor()
        left, right = torch.where(whole, index * step - 1, left), torch.where(whole, (index + 1) * step - 1, right)
        upper_left, lower_right = upper.clone(), lower.clone()
        upper_left[rows, side], lower_right[rows, side] = left, torch.minimum(right, high)
        lower, upper, kept = self._cut(torch.cat([lower, lower_right]), torch.cat([upper_left, upper]))
        return (lower[kept], upper[kept]), rows.repeat(2)[kept]

    def half_spaces(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Normals and offsets of half spaces that contain the feasible part of boxes with corners (B, d).

        Returns:
            Shapes (c, d) and (c,) where all constraints are linear, else (B, c, d) and (B, c).
        """
        if len(self.curved) == 0:
            return self.normals, self.offsets
        normals, offsets = self.curved.half_spaces(lower, upper)
        straight = self.normals.expand(len(lower), -1, -1), self.offsets.expand(len(lower), -1)
        return torch.cat([straight[0], normals], 1), torch.cat([straight[1], offsets], 1)

    def centres(self, lower: Tensor, upper: Tensor) -> Tensor:
        """A point (B, d) for each of the boxes with corners (B, d): its centre, moved onto the planes."""
        return self.planes.onto((lower + upper) / 2)

    def best_centre(self, lower: Tensor, upper: Tensor, scores: Tensor, least: float) -> Tensor | None:
        """Selectable centre of the highest of scores (B,), shape (d,); None if all are <= ``least``."""
        centres = self.centres(lower, upper)
        index = (centres + 1) / self.steps.clamp_min(SAME)
        whole = (self.steps == 0) | ((index - index.round()).abs() < _OFF)
        allowed = (centres @ self.normals.mT <= self.offsets).all(1) & (self.curved.excess(centres) <= 0).all(1)
        allowed = allowed & whole.all(1) & (scores > least)
        if len(self.planes):
            bottom, top = self.roots[0].amin(0), self.roots[1].amax(0)
            allowed = allowed & ((centres - centres.clamp(bottom, top)).abs() < SAME).all(1)
        allowed[allowed.clone()] = ~self._among_gone(centres[allowed])
        if not allowed.any():
            return None
        return centres[int(torch.where(allowed, scores, -torch.inf).argmax())]

    def _cut(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Corners (B, d) after the constraints, and True for boxes that contain a point of the region, shape (B,)."""
        kept = torch.ones(len(lower), dtype=torch.bool, device=lower.device)
        for _ in range(_ROUNDS if len(self.offsets) or len(self.curved) else 0):
            kept = kept & (self.curved.least(lower, upper) <= 0).all(1)
            normals, offsets = self.half_spaces(lower, upper)
            for c in range(normals.shape[-2]):
                lower, upper, possible = _tightened(lower, upper, normals[..., c, :], offsets[..., c].unsqueeze(-1))
                kept = kept & possible
            lower, upper = self._inward(lower, upper)
            kept = kept & (lower <= upper).all(1)
        return lower, upper, kept & ~self._is_gone(lower, upper)

    def _inward(self, lower: Tensor, upper: Tensor) -> Corners:
        """Integer sides moved in to the nearest integers."""
        whole, step = self.steps > 0, self.steps.clamp_min(SAME)
        low, high = ((lower + 1) / step - _OFF).ceil(), ((upper + 1) / step + _OFF).floor()
        return torch.where(whole, low * step - 1, lower), torch.where(whole, high * step - 1, upper)

    def _is_gone(self, lower: Tensor, upper: Tensor) -> Tensor:
        """True for boxes that are one design that cannot be chosen, shape (B,)."""
        found = (upper - lower).amax(1) < SAME / 2
        found[found.clone()] = self._among_gone((lower + upper)[found] / 2, SAME / 2)
        return found

    def _among_gone(self, X: Tensor, apart: float = SAME) -> Tensor:
        """True for rows of X (n, d) closer than ``apart`` to a design that cannot be chosen, shape (n,)."""
        return (torch.cdist(X, self.gone, p=torch.inf) < apart).any(1)


@dataclass(frozen=True, eq=False)
class Equalities:
    """Equalities E x = e, and the moves of continuous coordinates that bring a point onto them.

    Args:
        E: Shape (k, d); k may be 0.
        e: Shape (k,).
        lift: Moves (k, d) for each unit of the residual.
    """

    E: Tensor
    e: Tensor
    lift: Tensor

    @classmethod
    def of(cls, space: SearchSpace, device: torch.device) -> "Equalities":
        """The equalities of a space, on a device."""
        E, e = space.equalities
        lift = np.linalg.pinv(E * ~space.discrete, rcond=_OFF).T
        return cls(*(torch.tensor(part, device=device) for part in (E, e, lift)))

    def __len__(self) -> int:
        return len(self.e)

    def onto(self, X: Tensor) -> Tensor:
        """X (n, d) moved onto the planes in the continuous coordinates, as far as possible; (n, d)."""
        return X + (self.e - X @ self.E.mT) @ self.lift if len(self) else X


def _tightened(lower: Tensor, upper: Tensor, normal: Tensor, offset: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Corners cut by a half space (d,) and (1,), or one for each box, and True for non-empty boxes, shape (B,)."""
    least = torch.minimum(normal * lower, normal * upper)
    total = least.sum(1, keepdim=True)
    limit = (offset - total + least) / normal
    upper = torch.where(normal > 0, torch.maximum(torch.minimum(upper, limit), lower), upper)
    lower = torch.where(normal < 0, torch.minimum(torch.maximum(lower, limit), upper), lower)
    return lower, upper, (total <= offset).squeeze(1)


def _roots(space: SearchSpace) -> tuple[Array, Array]:
    """Corners (g, d) of one box for each combination of levels."""
    choices = [np.eye(group.stop - group.start) for group in space.groups]
    lower, upper = (np.tile(side, (int(np.prod([len(c) for c in choices], initial=1)), 1)) for side in space.bounds)
    for row, levels in enumerate(product(*choices)):
        for group, level in zip(space.groups, levels, strict=True):
            lower[row, group] = upper[row, group] = level
    return lower, upper


def refuse_folds(space: SearchSpace, maximizer: str) -> None:
    """Accept a space in which models see the encoded points themselves.

    Raises:
        ValueError: something in it is periodic, exchangeable or conditional.
    """
    if reasons := space.folds.reasons:
        raise ValueError(
            f"The maximizer {maximizer} bounds models of the encoded points themselves, and {'; '.join(reasons)}: use "
            "`maximizer: multistart`."
        )


def refuse_uneven(space: SearchSpace, maximizer: str) -> None:
    """Accept a space whose whole numbers are evenly spaced in their coordinates, as boxes of integers ask.

    Raises:
        ValueError: one has a logarithmic scale.
    """
    uneven = next((v.name for v in space.variables if isinstance(v, Integer) and v.log), None)
    if uneven is not None:
        raise ValueError(
            f"{uneven} is a whole number with a logarithmic scale, whose values the maximizer {maximizer} cannot count "
            "off: use `maximizer: multistart`, or leave log out."
        )


def integer_steps(space: SearchSpace) -> Array:
    """Distance of neighbouring integers or ordered levels in every coordinate, shape (d,); 0 where there are none.

    Neighbours less than ``SAME`` apart are one design, and their coordinate counts as continuous.
    """
    numbers = map(counted, space.variables)
    steps = [1 / n.scale[1] if n is not None and n.low < n.high else 0.0 for n in numbers]
    widths = [v.width for v in space.variables]
    return np.repeat([step if step >= SAME else 0.0 for step in steps], widths)
