"""Acquisitions that use the joint distribution of an exact Gaussian process, conditioned on pending trials."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor
from torch.quasirandom import SobolEngine

from fieldcraft.models.gaussian.process import ExactPosterior, to_unit
from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.numerics.randomness import seeded
from fieldcraft.models.surrogate import Function
from fieldcraft.physics.space import SearchSpace


def on_encoded(acquisition: AcquisitionFunction) -> Function:
    """A BoTorch acquisition of the model, on the unit cube, as a function of encoded points (n, d)."""
    return lambda X: torch.as_tensor(acquisition(to_unit(X).unsqueeze(-2)))


def unit_box(dimension: int) -> Tensor:
    """Bounds of BoTorch's cube, shape (2, d)."""
    return torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, dimension)


def unit_points(dimension: int, n: int) -> Tensor:
    """Scrambled Sobol points of [0, 1]^d by torch's ambient generator, shape (n, d)."""
    seed = int(torch.randint(2**31 - 1, ()))
    engine = SobolEngine(dimension, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    return engine.draw(n, dtype=torch.float64)


def spread_points(space: SearchSpace | None, dimension: int, n: int) -> Tensor:
    """Points of [0, 1]^d as ``unit_points`` gives them, shape (n, d), or points of a space if one is given."""
    if space is None:
        return unit_points(dimension, n)
    return to_unit(torch.from_numpy(take(sobol_points(space, ambient()), n)))


def ambient() -> np.random.Generator:
    """Numpy generator seeded by torch's ambient one."""
    return np.random.default_rng(int(torch.randint(2**31 - 1, ())))


@dataclass(frozen=True, eq=False)
class ConditionedScore:
    """Score built from an exact Gaussian process; pending trials and earlier places count as read at their mean.

    Args:
        posterior: Beliefs from the data.
        pending: Encoded points without a result, shape (k, d).
        build: Function from the conditioned posterior to the score of encoded points; may use torch's ambient
            generator.
        seed: Seed of that generator, so that a place has the same score each time.
    """

    posterior: ExactPosterior
    pending: Tensor
    build: Callable[[ExactPosterior], Function]
    seed: int
    # A place is asked about hundreds of times with the same points chosen: build its score once.
    _built: dict[bytes, Function] = field(default_factory=dict, repr=False)

    def value(self, X: Tensor, slot: int, chosen: Tensor) -> Tensor:
        """Worth of X (n, d), shape (n,), given the points ``chosen`` (j, d) for earlier places."""
        return self._for(chosen)(X)

    def _for(self, chosen: Tensor) -> Function:
        key = chosen.detach().numpy().tobytes()
        if key not in self._built:
            believed = torch.cat([self.pending, chosen.detach()])
            posterior = self.posterior.fantasize(believed) if len(believed) else self.posterior
            # Scores are asked for without gradients too, but what is searched for while building needs them.
            with seeded(np.random.default_rng(self.seed)), torch.enable_grad():
                self._built[key] = self.build(posterior)
        return self._built[key]
