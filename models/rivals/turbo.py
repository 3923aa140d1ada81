"""TuRBO-1 (Eriksson et al., 2019), one trust region, as BoTorch's tutorial turbo_1 has it."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.generation.sampling import MaxPosteriorSampling
from botorch.models import SingleTaskGP
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.settings import max_cholesky_size
from torch import Tensor
from torch.quasirandom import SobolEngine

from fieldcraft.models.capability import Capability
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, minimised, require_box, seed_of
from fieldcraft.models.rivals._botorch import Cube
from fieldcraft.models.rivals._coordinates import inside
from fieldcraft.models.rivals._trust_region import present_run
from fieldcraft.physics.space import SearchSpace

# Coordinates that a candidate changes, on average at most.
_CHANGED = 20


@dataclass(frozen=True)
class TuRBO:
    """Thompson sampling within a trust region around the best result, which grows and shrinks with success.

    The tutorial's settings: Matern-5/2 with a length scale for each coordinate, 2,000 to 5,000 Sobol candidates of
    which each changes about 20 coordinates, a region of side 0.8 that ten successes in a row double and max(4, d) / q
    failures in a row halve. Below 1/128 the search begins anew from 2 d random designs, and forgets what was before.
    The region follows from the results in their order; the first 2 d of a run are its start. Integers and categories
    are rounded designs of the box.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.BOX})

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest)."""
        require_box(space, "TuRBO")
        known = inside(space, data.X)
        cube, X, y = Cube(space), data.X[known], minimised(data)[known]
        start, region = present_run((-y).tolist(), space.dimension, q)
        if region is None:
            return space.sample(q, rng)
        with contained(rng), max_cholesky_size(math.inf):
            U, Y = cube.of(X[start:]), torch.as_tensor(-y[start:]).unsqueeze(-1)
            model = _fitted(U, Y)
            candidates = _candidates(model, U[Y.argmax()], region.length, seed_of(rng))
            with torch.no_grad():
                return cube.back(MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=q))


def _fitted(U: Tensor, Y: Tensor) -> SingleTaskGP:
    kernel = MaternKernel(nu=2.5, ard_num_dims=U.shape[1], lengthscale_constraint=Interval(0.005, 4.0))
    likelihood = GaussianLikelihood(noise_constraint=Interval(1e-8, 1e-3))
    spread = Y.std()
    scaled = (Y - Y.mean()) / (spread if spread > 0 else 1.0)
    model = SingleTaskGP(U, scaled, covar_module=ScaleKernel(kernel), likelihood=likelihood, outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def _candidates(model: SingleTaskGP, centre: Tensor, length: float, seed: int) -> Tensor:
    """Points (n, d) of the region around the centre (d,) whose sides are in proportion to the length scales."""
    d = len(centre)
    count = min(5000, max(2000, 200 * d))
    weights = model.covar_module.base_kernel.lengthscale.detach().reshape(-1)
    weights = weights / weights.mean()
    weights = weights / weights.pow(1.0 / d).prod()
    low, high = (centre - weights * length / 2).clamp(0, 1), (centre + weights * length / 2).clamp(0, 1)
    sobol = SobolEngine(d, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    moved = low + (high - low) * sobol.draw(count, dtype=torch.double)
    changed = torch.rand(count, d, dtype=torch.double) <= min(_CHANGED / d, 1.0)
    none = torch.where(changed.sum(1) == 0)[0]
    changed[none, torch.randint(0, d, (len(none),))] = True
    return torch.where(changed, moved, centre)
