"""Posteriors whose target is not normal: its values for standard normal variables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from fieldcraft.models.surrogate import Posterior


@dataclass(frozen=True, eq=False)
class Sampler:
    """A target as a function of independent standard normal variables, those of each point in its own.

    Args:
        variables: Their number r.
        at: Function from points (n, d) and values of the variables (s, r) to the target, shape (s, n), with its mean
            (n,) and variance (n,) over all values; differentiable in the points.
    """

    variables: int
    at: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@runtime_checkable
class Sampled(Protocol):
    """A posterior whose target may be something else than normal."""

    @property
    def target_sampler(self) -> Sampler | None:
        """The target as a function of normal variables; None where its moments say all of it."""
        ...


def sampler_of(posterior: Posterior) -> Sampler | None:
    """The target of a posterior as a function of normal variables, where its moments do not say all of it."""
    return posterior.target_sampler if isinstance(posterior, Sampled) else None
