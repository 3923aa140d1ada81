"""Cuts of boxes by quadratic constraints: exclusion by a bound, and half spaces that contain the feasible part."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.numerics.point_sets import quadric_slack
from fieldcraft.physics.geometry.quadrics import Quadrics


@dataclass(frozen=True, eq=False)
class CurvedCuts:
    """Constraints x'Qx + a . x <= b on encoded points, convex or not.

    Args:
        Q: Symmetric matrices, shape (c, d, d); c may be 0.
        a: Shape (c, d).
        b: Right-hand sides plus the tolerance within which a constraint counts as satisfied, shape (c,).
    """

    Q: Tensor
    a: Tensor
    b: Tensor

    @classmethod
    def of(cls, quadrics: Quadrics, device: torch.device) -> "CurvedCuts":
        """The constraints of a space, on a device."""
        parts = (quadrics.Q, quadrics.a, quadrics.b + 2 * quadric_slack(quadrics))
        return cls(*(torch.tensor(np.ascontiguousarray(part), device=device) for part in parts))

    def __len__(self) -> int:
        return len(self.b)

    def excess(self, X: Tensor) -> Tensor:
        """Violation of each constraint at points X (n, d), shape (n, c)."""
        return torch.einsum("ni,kij,nj->nk", X, self.Q, X) + X @ self.a.mT - self.b

    def least(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Lower bound of each excess in boxes with corners (B, d), shape (B, c).

        It is the least value where Q is diagonal; products of two coordinates are bounded about the centre.
        """
        middle, half = (lower + upper) / 2, ((upper - lower) / 2).unsqueeze(1)
        square, slope = self.Q.diagonal(dim1=1, dim2=2), self._slopes(middle)
        bottom = torch.minimum(torch.maximum(-slope / (2 * square), -half), half)
        at = torch.where(square > 0, bottom, torch.where(slope > 0, -half, half))
        return self.excess(middle) + ((slope + square * at) * at).sum(2) - self._mixed(half)

    def half_spaces(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Normals n (B, c, d) and offsets o (B, c) of n . x <= o, which hold wherever in a box its constraint does.

        Each is the constraint about the centre, with a lower bound in place of its second-order part.
        """
        middle, half = (lower + upper) / 2, ((upper - lower) / 2).unsqueeze(1)
        normals = self._slopes(middle)
        sagging = (self.Q.diagonal(dim1=1, dim2=2).clamp_max(0) * half.square()).sum(2) - self._mixed(half)
        return normals, (normals @ middle.unsqueeze(-1)).squeeze(-1) - self.excess(middle) - sagging

    def _slopes(self, X: Tensor) -> Tensor:
        """Gradients at X (n, d), shape (n, c, d)."""
        return 2 * torch.einsum("kij,nj->nki", self.Q, X) + self.a

    def _mixed(self, half: Tensor) -> Tensor:
        """The largest absolute sum of the products of two different coordinates within half widths (B, 1, d)."""
        others = self.Q.abs() - torch.diag_embed(self.Q.diagonal(dim1=1, dim2=2).abs())
        sides = half.squeeze(1)
        return torch.einsum("ni,kij,nj->nk", sides, others, sides)
