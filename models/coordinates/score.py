"""Scores of models that see other coordinates than encoded points, as functions of encoded points."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fieldcraft.models.acquisition import (
    BoundedScore,
    PeakedScore,
    Score,
    ScreenedScore,
    ViolationScore,
    anchors_of,
    centre_of,
    suggested_by,
)
from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.scoring.gradients import with_gradients


@dataclass(frozen=True, eq=False)
class ScoreOfDesigns:
    """A score in the coordinates that a model sees, read at encoded points.

    Args:
        score: The score.
        coordinates: Those coordinates.
    """

    score: Score
    coordinates: ModelCoordinates

    @property
    def searched_about(self) -> Tensor | None:
        """The encoded point, shape (d,), about which it is searched; None for the whole space."""
        centre = centre_of(self.score)
        return None if centre is None else self.coordinates.back(centre[None])[0]

    @property
    def anchors(self) -> Tensor | None:
        """The encoded points (m, d) near which it may be largest; None if it knows none."""
        points = anchors_of(self.score)
        return None if points is None else self.coordinates.back(points)

    @property
    def suggested(self) -> Tensor | None:
        """The encoded points (m, d) that may be its best; None if it knows none."""
        points = suggested_by(self.score)
        return None if points is None else self.coordinates.back(points)

    @property
    def peak(self) -> Tensor | None:
        """The encoded point (d,) about which a narrow peak lies; None where none is expected."""
        peak = self.score.peak if isinstance(self.score, PeakedScore) else None
        return None if peak is None else self.coordinates.back(peak[None])[0]

    @property
    def faint(self) -> float:
        """See PeakedScore."""
        return self.score.faint if isinstance(self.score, PeakedScore) else -math.inf

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Worth of encoded X (n, d), shape (n,) (see Score.value)."""
        return self.score.value(self.coordinates(X), slot, self.coordinates(chosen))

    def value_and_grad(self, X: Tensor, slot: int, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at encoded X (n, d)."""
        points = X.detach().clone().requires_grad_()
        with torch.enable_grad():
            seen = self.coordinates(points)
        values, slopes = with_gradients(self.score, seen.detach(), slot, self.coordinates(chosen))
        (gradients,) = torch.autograd.grad(seen, points, slopes)
        return values, gradients

    def screened(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Nearly ``value`` at encoded X (n, d), shape (n,), at less cost where the score has such a form."""
        cheap = self.score.screened if isinstance(self.score, ScreenedScore) else self.score.value
        return cheap(self.coordinates(X), slot, self.coordinates(chosen))


@dataclass(frozen=True, eq=False)
class BoundedScoreOfDesigns(ScoreOfDesigns):
    """A bounded score, read at encoded points."""

    score: BoundedScore

    def excess(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Excesses at encoded X (n, d), shape (n, k)."""
        return self.score.excess(self.coordinates(X), slot, self.coordinates(chosen))


@dataclass(frozen=True, eq=False)
class ViolationScoreOfDesigns(ScoreOfDesigns):
    """A score that is minus the sum of violations, read at encoded points."""

    score: ViolationScore

    def violations(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Smooth functions at encoded X (n, d), shape (n, k)."""
        return self.score.violations(self.coordinates(X), slot, self.coordinates(chosen))


def of_designs(score: Score, coordinates: ModelCoordinates) -> Score:
    """A score in the coordinates that models see, as a score of encoded points."""
    if isinstance(score, BoundedScore):
        return BoundedScoreOfDesigns(score, coordinates)
    if isinstance(score, ViolationScore):
        return ViolationScoreOfDesigns(score, coordinates)
    return ScoreOfDesigns(score, coordinates)
