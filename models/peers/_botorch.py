"""BoTorch as its tutorials use it: a SingleTaskGP on the unit cube and optimize_acqf with ten restarts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim.optimize import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from models.observations import Array, Observations
from models.peer import minimised
from physics.space import SearchSpace

RESTARTS, RAW_SAMPLES = 10, 512


@dataclass(frozen=True, eq=False)
class Cube:
    """The unit cube over a search space's encoded coordinates.

    Args:
        space: The search space.
    """

    space: SearchSpace

    def of(self, X: Array) -> Tensor:
        """Points of the cube of encoded points (n, d)."""
        return torch.as_tensor((X - self._low) / self._width)

    def back(self, U: Tensor) -> Array:
        """Encoded feasible points of points (n, d) of the cube."""
        return self.space.repair(np.asarray(self._low + self._width * U.detach().numpy()))

    def rounded(self, U: Tensor) -> Tensor:
        """Points (..., d) of the cube moved to designs: integers, single levels, linear constraints."""
        return self.of(self.back(U.reshape(-1, U.shape[-1]))).reshape(U.shape)

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The linear constraints as BoTorch takes them: sum_i a_i u_i >= b; None where there are none."""
        A, b = self.space.linear
        A, b = A * self._width, b - A @ self._low
        every = torch.arange(A.shape[1])
        return [(every, torch.as_tensor(-row), -float(end)) for row, end in zip(A, b, strict=True)] or None

    @property
    def _low(self) -> Array:
        return np.asarray(self.space.bounds[0])

    @property
    def _width(self) -> Array:
        low, high = self.space.bounds
        return np.asarray(np.where(high > low, high - low, 1.0))


def fitted(cube: Cube, data: Observations) -> SingleTaskGP:
    """BoTorch's default Gaussian process, which is maximised, fitted to all readings."""
    model = SingleTaskGP(cube.of(data.X), torch.as_tensor(-minimised(data)).unsqueeze(-1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def maximised(acquisition: Callable[[Tensor | None], AcquisitionFunction], cube: Cube, pending: Array, q: int) -> Array:
    """q designs chosen one after the other, each before it pending for the next, encoded, shape (q, d)."""
    bounds = torch.stack([torch.zeros(cube.space.dimension), torch.ones(cube.space.dimension)]).double()
    waiting = cube.of(pending)
    for _ in range(q):
        found, _ = optimize_acqf(
            acquisition(waiting if len(waiting) else None),
            bounds=bounds,
            q=1,
            num_restarts=RESTARTS,
            raw_samples=RAW_SAMPLES,
            inequality_constraints=cube.inequalities,
            post_processing_func=cube.rounded if cube.space.discrete.any() else None,
        )
        waiting = torch.cat([waiting, cube.rounded(found)])
    return cube.back(waiting[len(waiting) - q :])
