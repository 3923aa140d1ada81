"""Coordinates in which models see designs: equal for all encoded points of one design.

Of an angle u in [-1, 1) models see cos(pi u) and sin(pi u), of exchangeable blocks the sorted ones, and of a variable
that does not exist 0, the middle of its interval or no level at all. Whatever is learnt is then a function of the
design: periodic, symmetric under each exchange, and without effect of values that do not exist.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.data.earlier_results import MOST_EARLIER
from fieldcraft.models.maximizer import SAME
from fieldcraft.models.observations import Array, EarlierResults, LevelResults, Observations, PartialResults
from fieldcraft.physics.space import ImageColumns, SearchSpace

_Results = TypeVar("_Results", EarlierResults, LevelResults)


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
        return self._around(self._existing(seen))

    def _existing(self, seen: Tensor) -> Tensor:
        """Points (n, d), with 0 in the coordinates of variables that do not exist."""
        folds = self.space.folds
        if not self.space.only_if:
            return seen
        exist = torch.ones_like(seen.detach())
        for name, each in folds.existence(seen.detach().numpy()):
            exist[:, folds.columns[name]] = torch.from_numpy(each).to(seen.dtype)[:, None]
        return seen * exist

    def _around(self, seen: Tensor) -> Tensor:
        """Coordinates (n, m) of points (n, d) that are sorted or not: cosine and sine in place of each angle."""
        folds = self.space.folds
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

    def _exchanged(self, X: Array) -> tuple[Array, NDArray[np.intp]]:
        """Coordinates (r, m) of all exchanges of encoded X (n, d) that differ, with the row of X of each, (r,)."""
        folds = self.space.folds
        sorted_points, rows, kept = folds.canonical(X), list[int](), list[Array]()
        for row, point in enumerate(sorted_points):
            each = np.array([point[columns] for columns in folds.exchanges])
            _, first = np.unique(each, axis=0, return_index=True)
            kept.append(each[np.sort(first)])
            rows += [row] * len(first)
        points = torch.from_numpy(np.concatenate([np.empty((0, X.shape[1])), *kept]))
        return np.asarray(self._around(self._existing(points)).numpy()), np.array(rows, dtype=np.intp)

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """The coordinates of each variable, by its name."""
        found, first = dict[str, slice](), 0
        for name, at in self.space.folds.columns.items():
            last = first + at.stop - at.start + (name in self.space.folds.periodic)
            found[name], first = slice(first, last), last
        return found

    def taught(self, data: Observations) -> Observations:
        """The observations from which models learn: those that they see, each in all orders of exchangeable blocks.

        Sorted blocks alone would end where two are equal; so a model knows what lies beyond. Of more than 24 orders the
        sorted one is all.
        """
        seen = self.seen(data)
        if len(self.space.folds.exchanges) == 1:
            return seen
        X, rows = self._exchanged(data.X)
        failed, _ = self._exchanged(data.failed)
        return replace(
            seen,
            X=X,
            y=data.y[rows],
            constraints=data.constraints[rows],
            further=data.further[rows],
            failed=failed,
            sds=data.sds[rows] if data.sds.size else data.sds,
            earlier=tuple(self._all_orders(each) for each in data.earlier),
            composite=data.composite and data.composite.among(rows),
            lower=tuple(self._all_orders(replace(each, read=None)) for each in data.lower),
            partial=None if data.partial is None else self._partial_in_all_orders(data.partial),
        )

    def _partial_in_all_orders(self, partial: PartialResults) -> PartialResults:
        X, rows = self._exchanged(partial.X)
        return PartialResults(X, partial.Y[rows], partial.sds[rows] if partial.sds.size else partial.sds)

    def _all_orders(self, results: _Results) -> _Results:
        """Other results in all orders; in the sorted one alone where that makes more than a model takes."""
        X, rows = self._exchanged(results.X)
        if len(X) > MOST_EARLIER:
            return replace(results, X=self.array(results.X))
        return replace(results, X=X, Y=results.Y[rows])

    def seen(self, data: Observations) -> Observations:
        """The observations as models see them: without equation, cheap predictions, fields and gradients."""
        encoded = {at.start: name for name, at in self.space.columns.items()}
        images = (ImageColumns(self.columns[encoded[image.first]].start, image.shape) for image in data.images)
        return replace(
            data,
            X=self.array(data.X),
            failed=self.array(data.failed),
            earlier=tuple(replace(each, X=self.array(each.X)) for each in data.earlier),
            lower=tuple(replace(each, X=self.array(each.X), read=None) for each in data.lower),
            partial=None if data.partial is None else replace(data.partial, X=self.array(data.partial.X)),
            images=tuple(images),
            columns=self.columns,
            space=None,
            physics=None,
            emulators=(),
            snapshots=None,
            readings=None,
            gradients=None,
        )


def among(X: Array, known: Array, space: SearchSpace | None) -> NDArray[np.bool_]:
    """True for rows of encoded X (n, d) that are a design of ``known`` (k, d), also under another point, shape (n,)."""
    if (coordinates := ModelCoordinates.of(space)) is not None:
        X, known = coordinates.array(X), coordinates.array(known)
    return np.asarray((np.abs(X[:, None] - known[None]).max(axis=2) < SAME).any(axis=1))
