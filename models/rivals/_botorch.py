"""BoTorch as its tutorials use it: a SingleTaskGP on the unit cube and optimize_acqf with ten restarts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogProbabilityOfFeasibility
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.objective import GenericMCObjective
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.optim.initializers import initialize_q_batch
from botorch.optim.optimize import optimize_acqf
from botorch.utils.multi_objective.hypervolume import infer_reference_point
from botorch.utils.multi_objective.pareto import is_non_dominated
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import all_minimised, feasible
from fieldcraft.physics.space import SearchSpace

RESTARTS, RAW_SAMPLES = 10, 512
# By how much BoTorch may exceed a quadratic constraint; designs are repaired afterwards.
_SLACK = 1e-8


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
        return self.space.repair(self.encoded(U.detach().numpy()))

    def encoded(self, U: Array) -> Array:
        """Encoded points (n, d) of points of the cube, whether they are feasible or not."""
        return np.asarray(self._low + self._width * U)

    def rounded(self, U: Tensor) -> Tensor:
        """Points (..., d) of the cube moved to designs: integers, single levels, known constraints."""
        return self.of(self.back(U.reshape(-1, U.shape[-1]))).reshape(U.shape)

    @property
    def inequalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The linear constraints in BoTorch's form, sum_i a_i u_i >= b; None if there are none."""
        A, b = self.space.linear
        return self._sums(-A, -b)

    @property
    def equalities(self) -> list[tuple[Tensor, Tensor, float]] | None:
        """The linear equalities in BoTorch's form, sum_i a_i u_i = b; None if there are none."""
        return self._sums(*self.space.equalities)

    def _sums(self, A: Array, b: Array) -> list[tuple[Tensor, Tensor, float]] | None:
        A, b = A * self._width, b - A @ self._low
        every = torch.arange(A.shape[1])
        return [(every, torch.as_tensor(row), float(end)) for row, end in zip(A, b, strict=True)] or None

    @property
    def curved(self) -> dict[str, Any]:
        """The quadratic constraints as arguments of optimize_acqf, with the starts it then requires; else empty."""
        count = len(self.space.quadratic)
        if count == 0:
            return {}
        constraints = [(partial(self._room, k), True) for k in range(count)]
        return {"nonlinear_inequality_constraints": constraints, "ic_generator": self._starts}

    def _room(self, k: int, U: Tensor) -> Tensor:
        """Slack of quadratic constraint k at points (..., d) of the cube, shape (...,)."""
        quadrics = self.space.quadratic
        Q, a = torch.as_tensor(quadrics.Q[k]), torch.as_tensor(quadrics.a[k])
        X = torch.as_tensor(self._low) + torch.as_tensor(self._width) * U
        return float(quadrics.b[k]) + _SLACK - ((X @ Q) * X).sum(-1) - X @ a

    def _starts(self, acq_function: AcquisitionFunction, num_restarts: int, raw_samples: int, **_: object) -> Tensor:
        """Feasible points (num_restarts, 1, d) chosen as BoTorch chooses its own, but from uniform samples."""
        rng = np.random.default_rng(int(torch.randint(2**31 - 1, ())))
        U = self.of(self.space.sample(raw_samples, rng)).unsqueeze(1)
        with torch.no_grad():
            values = acq_function(U)
        return initialize_q_batch(U, values, num_restarts)[0]

    @property
    def _low(self) -> Array:
        return np.asarray(self.space.bounds[0])

    @property
    def _width(self) -> Array:
        low, high = self.space.bounds
        return np.asarray(np.where(high > low, high - low, 1.0))


def fitted(cube: Cube, data: Observations) -> SingleTaskGP | ModelListGP:
    """BoTorch's default Gaussian process, which is maximised, fitted to all results.

    With several objectives or unknown constraints it is a list of models: each objective, and each constraint divided
    by the standard deviation of its results, since BoTorch smooths the step at 0 on one scale for all.
    """
    X = cube.of(data.X)
    objectives = [_fitted(X, -column) for column in all_minimised(data).T]
    if data.constraints.shape[1] == 0 and len(objectives) == 1:
        return objectives[0]
    each = [data.constraints[:, k] / data.constraint(k).scaling.sd for k in range(data.constraints.shape[1])]
    return ModelListGP(*objectives, *(_fitted(X, readings) for readings in each))


def _fitted(X: Tensor, readings: Array) -> SingleTaskGP:
    model = SingleTaskGP(X, torch.as_tensor(readings).unsqueeze(-1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def under(data: Observations) -> dict[str, Any]:
    """Arguments for BoTorch's Monte Carlo acquisitions under unknown constraints; empty if there are none."""
    if data.constraints.shape[1] == 0:
        return {}
    return {"constraints": _constraints(data), "objective": GenericMCObjective(_first)}


def probability(model: ModelListGP, data: Observations, waiting: Tensor | None) -> qLogProbabilityOfFeasibility:
    """Log probability of feasibility, which BoTorch recommends while no result is feasible."""
    return qLogProbabilityOfFeasibility(model, constraints=_constraints(data), X_pending=waiting)


def within(data: Observations) -> dict[str, Any]:
    """Arguments for BoTorch's Monte Carlo acquisitions of several objectives: reference, objectives and constraints.

    Where a reference is not stated, BoTorch's rule infers it from the front of the results, of the feasible ones if
    there are any.
    """
    values = torch.as_tensor(-all_minimised(data))
    kept = torch.as_tensor(feasible(data))
    values = values[kept] if kept.any() else values
    inferred = infer_reference_point(values[is_non_dominated(values)]).tolist()
    stated = [None if aim.reference is None else aim.reference * (1 if aim.maximize else -1) for aim in data.aims]
    return {
        "ref_point": [guess if known is None else known for known, guess in zip(stated, inferred, strict=True)],
        "objective": IdentityMCMultiOutputObjective(outcomes=list(range(len(data.aims)))),
        "constraints": _constraints(data) or None,
    }


def _constraints(data: Observations) -> list[Callable[[Tensor], Tensor]]:
    first = max(len(data.aims), 1)
    return [partial(_output, k=first + k) for k in range(data.constraints.shape[1])]


def _output(samples: Tensor, k: int) -> Tensor:
    return samples[..., k]


def _first(samples: Tensor, X: Tensor | None = None) -> Tensor:
    return samples[..., 0]


def maximised(
    acquisition: Callable[[Tensor | None], AcquisitionFunction],
    cube: Cube,
    pending: Array,
    q: int,
    at_once: Mapping[str, int] | None = None,
) -> Array:
    """q designs chosen one after the other, each before it pending for the next, encoded, shape (q, d).

    Args:
        acquisition: Function from pending points of the cube, None for none, to what is maximised.
        cube: The cube.
        pending: Encoded points without a result, shape (k, d).
        q: Number of designs.
        at_once: Limits of optimize_acqf on the points that are computed together; None for its own.
    """
    bounds = torch.stack([torch.zeros(cube.space.dimension), torch.ones(cube.space.dimension)]).double()
    waiting = cube.of(pending)
    for _ in range(q):
        found, _ = optimize_acqf(
            acquisition(waiting if len(waiting) else None),
            bounds=bounds,
            q=1,
            num_restarts=RESTARTS,
            raw_samples=RAW_SAMPLES,
            options=dict(at_once) if at_once else None,
            inequality_constraints=cube.inequalities,
            equality_constraints=cube.equalities,
            post_processing_func=cube.rounded if cube.space.discrete.any() else None,
            **cube.curved,
        )
        waiting = torch.cat([waiting, cube.rounded(found)])
    return cube.back(waiting[len(waiting) - q :])
