"""Batching of posteriors of one form: one pass through the algebra for all of them instead of one for each."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.surrogate import MomentsWithSlopes, Posterior, Slopes, slopes_of

Moments = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Means (c, n) and variances (c, n) of c noise-free functions at X (n, d), differentiable in X."""

# Points, times posteriors, that a stack is asked about at once: the arrays of a pass then stay in the cache.
_ROWS = 704


@runtime_checkable
class Stackable(Protocol):
    """A posterior that can be evaluated together with others of its form."""

    @property
    def form(self) -> Hashable:
        """Key that is equal for posteriors that can be stacked; None for one that is better evaluated alone."""
        ...

    def together(self, others: Sequence[Self]) -> Moments:
        """Moments of this posterior and of others of its form, in this order; equal to ``mean_var`` to rounding."""
        ...


@runtime_checkable
class StackableSlopes(Stackable, Protocol):
    """A posterior that can be evaluated together with others of its form, with gradients in closed form."""

    def slopes_together(self, others: Sequence[Self]) -> Slopes:
        """Moments of this posterior and of others of its form with their gradients, (c, n) and (c, n, d).

        Only posteriors that know them in closed form (see ``slopes_of``) are asked.
        """
        ...


def jointly(posteriors: Sequence[Posterior]) -> Moments:
    """Function for the moments of all posteriors, in their order; those of one form are stacked, only once."""
    forms = _forms(posteriors, [each.form if isinstance(each, Stackable) else None for each in posteriors])
    groups = [_moments([posteriors[i] for i in group]) for group in forms]
    places = torch.tensor([i for group in forms for i in group]).argsort()

    def moments(X: Tensor) -> tuple[Tensor, Tensor]:
        means, variances = zip(*(group(X) for group in groups), strict=True)
        return torch.cat(means)[places], torch.cat(variances)[places]

    return moments


def jointly_sloped(posteriors: Sequence[Posterior]) -> Slopes | None:
    """Function for the moments of all posteriors with their gradients, (c, n) and (c, n, d), in their order.

    None if there are none, or if one does not know them in closed form; those of one form are stacked, only once.
    """
    alone = [slopes_of(each) for each in posteriors]
    known = [each for each in alone if each is not None]
    if len(known) < max(1, len(alone)):
        return None
    forms = _forms(posteriors, [each.form if isinstance(each, StackableSlopes) else None for each in posteriors])
    groups = [_slopes([posteriors[i] for i in group], known[group[0]]) for group in forms]
    places = np.argsort([i for group in forms for i in group])

    def sloped(X: Tensor) -> MomentsWithSlopes:
        found = [group(X) for group in groups]
        parts = ([getattr(each, field.name) for each in found] for field in fields(MomentsWithSlopes))
        return MomentsWithSlopes(*(np.concatenate(each)[places] for each in parts))

    return sloped


def _forms(posteriors: Sequence[Posterior], keys: Sequence[Hashable]) -> list[list[int]]:
    """Numbers of the posteriors of one class and key; one whose key is None is alone."""
    forms = defaultdict[Hashable, list[int]](list)
    for i, (each, key) in enumerate(zip(posteriors, keys, strict=True)):
        forms[i if key is None else (type(each), key)].append(i)
    return list(forms.values())


def _slopes(posteriors: Sequence[Posterior], alone: Slopes) -> Slopes:
    """Moments with gradients of posteriors of one form, with an axis for them; ``alone`` those of the first."""
    first, *others = posteriors
    if others and isinstance(first, StackableSlopes):
        return first.slopes_together(cast("list[Any]", others))

    def sloped(X: Tensor) -> MomentsWithSlopes:
        at = alone(X)
        return MomentsWithSlopes(*(getattr(at, field.name)[None] for field in fields(MomentsWithSlopes)))

    return sloped


def _moments(posteriors: Sequence[Posterior]) -> Moments:
    """Moments of posteriors of one form."""
    first, *others = posteriors
    if others and isinstance(first, Stackable):
        alike = cast("list[Any]", others)
        return _in_blocks(first.together(alike), max(1, _ROWS // len(posteriors)))

    def alone(X: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = first.mean_var(X)
        return mean[None], variance[None]

    return alone


def _in_blocks(moments: Moments, rows: int) -> Moments:
    """The moments, evaluated for ``rows`` points at a time."""

    def whole(X: Tensor) -> tuple[Tensor, Tensor]:
        if len(X) <= rows:
            return moments(X)
        means, variances = zip(*(moments(block) for block in torch.split(X, rows)), strict=True)
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)

    return whole
