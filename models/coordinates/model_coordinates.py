"""Coordinates in which models see designs: equal for all encoded points of one design.

Of an angle u in [-1, 1) models see cos(pi u) and sin(pi u), of exchangeable blocks the sorted ones, and of a variable
that does not exist 0, the middle of its interval or no level at all. Whatever is learnt is then a function of the
design: periodic, symmetric under each exchange, and without effect of values that do not exist.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.observations import Array, Observations
from fieldcraft.physics.space import ImageColumns, SearchSpace


@dataclass(frozen=True, eq=False)
class ModelCoordinates:
    """Map from encoded points (n, d) of a space to the coordinates (n, m) that models see.

    Args:
        space: A space that is not plain.
    """

    space: SearchSpace

    @classmethod
    def of(cls, space: SearchSpace | None) -> "ModelCoordinates | None":
        """The map of a space; None where models see the encoded points themselves."""
        return None if space is None or space.plain else cls(space)

    @property
    def dimension(self) -> int:
        """Number m of coordinates that models see."""
        return self.space.dimension + len(self.space.folds.periodic)

    def __call__(self, X: Tensor) -> Tensor:
        """Coordinates (n, m) of encoded points X (n, d), differentiable wherever they are smooth in X."""
        folds, points = self.space.folds, X.detach().numpy()
        seen = X
        if self.space.exchangeable:
            seen = seen.gather(1, torch.from_numpy(folds.ordered(points)))
        if self.space.only_if:
            exist = torch.ones_like(X.detach())
            for name, each in folds.existence(points):
                exist[:, folds.columns[name]] = torch.from_numpy(each).to(X.dtype)[:, None]
            seen = seen * exist
        if not folds.periodic:
            return seen
        parts = []
        for name, at in folds.columns.items():
            column = seen[:, at]
            around = name in folds.periodic
            parts += [(math.pi * column).cos(), (math.pi * column).sin()] if around else [column]
        return torch.cat(parts, dim=1)

    def array(self, X: Array) -> Array:
        """Coordinates (n, m) of encoded points X (n, d)."""
        return np.asarray(self(torch.tensor(X, dtype=torch.float64)).numpy())

    def back(self, Z: Tensor) -> Tensor:
        """Encoded points (n, d) of coordinates (n, m): one point of each design."""
        folds, parts, first = self.space.folds, list[Tensor](), 0
        for name, at in folds.columns.items():
            if name in folds.periodic:
                parts.append(torch.atan2(Z[:, first + 1], Z[:, first])[:, None] / math.pi)
                first += 2
            else:
                parts.append(Z[:, first : first + at.stop - at.start])
                first += at.stop - at.start
        return torch.from_numpy(folds.canonical(torch.cat(parts, dim=1).numpy()))

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """The coordinates of each variable, by its name."""
        found, first = dict[str, slice](), 0
        for name, at in self.space.folds.columns.items():
            last = first + at.stop - at.start + (name in self.space.folds.periodic)
            found[name], first = slice(first, last), last
        return found

    def seen(self, data: Observations) -> Observations:
        """The observations as models see them: without equation, cheap predictions, fields and gradients."""
        encoded = {at.start: name for name, at in self.space.columns.items()}
        images = (ImageColumns(self.columns[encoded[image.first]].start, image.shape) for image in data.images)
        return replace(
            data,
            X=self.array(data.X),
            failed=self.array(data.failed),
            images=tuple(images),
            columns=self.columns,
            space=None,
            physics=None,
            emulators=(),
            snapshots=None,
            readings=None,
            gradients=None,
        )
