"""BoTorch's composite expected improvement over a high-order Gaussian process of the fields, as in its tutorial."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.objective import GenericMCObjective
from botorch.exceptions.errors import BotorchError
from botorch.models.higher_order_gp import FlattenedStandardize, HigherOrderGP
from botorch.optim.fit import fit_gpytorch_mll_torch
from botorch.sampling.normal import IIDNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.settings import fast_computations, max_cholesky_size
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor
from torch.optim import Adam

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.slopes import differentiable, with_slopes
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.rival import contained, seed_of
from fieldcraft.models.rivals._botorch import RAW_SAMPLES, RESTARTS, Cube, maximised
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.physics.space import SearchSpace

# The tutorial's steps of Adam with their rate, and draws of the fields.
_STEPS, _RATE, _DRAWS = 1000, 0.01, 128
# Cells of a field at most, and numbers that are drawn together.
_CELLS, _NUMBERS = 128, 20_000_000
# Numbers of the moved fields of a few draws, which a processor's cache holds: more at once take four times as long.
_MOVED = 250_000


@dataclass(frozen=True)
class BotorchComposite:
    """Log improvement of the objective as it is read from draws of the fields (Astudillo and Frazier, 2019).

    The fields of the trials are learnt by a HigherOrderGP (Zhe et al., 2019), each standardised, as BoTorch's tutorial
    composite_bo_with_hogp does: 1000 steps of Adam, 128 draws, ten restarts from 512 samples; with the logarithm of
    the improvement (Ament et al., 2023). Fields of more than 128 cells are kept as means over fewer. A result counts
    as what is read from its field. The functional's derivatives by each cell are central differences.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.FIELDS})
    uses_fields: ClassVar[bool] = True

    def suggest(
        self, data: Observations, pending: Array, space: SearchSpace, q: int, rng: np.random.Generator
    ) -> Array:
        """The next batch, encoded, shape (q, d) (see Rival.suggest).

        Raises:
            ValueError: a trial has no field, a draw of the fields gives no finite output, or BoTorch's model fails.
        """
        if data.snapshots is None:
            raise ValueError(
                f"botorch_composite learns from the fields of all {len(data)} trials, and one at least has none from "
                "which its result is read (none was stored, it is damaged, or the result was corrected since): use "
                "another algorithm, such as botorch_log_ei."
            )
        known, cube = data.snapshots, Cube(space)
        if known.coarser is not None and known.values.shape[2] > _CELLS:
            known = known.coarser(_CELLS)
        read = _Read(known, cube, -1.0 if data.maximize else 1.0)
        with contained(rng), _exact_algebra(), _explained():
            model = _fitted(cube.of(data.X), torch.as_tensor(read.standardised))
            best = float(read.objective(torch.as_tensor(read.standardised), cube.of(data.X)).max())
            seed = seed_of(rng)

            def acquisition(waiting: Tensor | None) -> AcquisitionFunction:
                return qLogExpectedImprovement(
                    model,
                    best_f=best,
                    sampler=IIDNormalSampler(torch.Size([_DRAWS]), seed=seed),
                    objective=GenericMCObjective(read.objective),
                    X_pending=waiting,
                )

            # A point is drawn jointly with all trials, twice.
            numbers = _DRAWS * 2 * (len(data) + len(pending) + q) * math.prod(read.standardised.shape[1:])
            points = max(1, _NUMBERS // numbers)
            at_once = {"batch_limit": min(RESTARTS, points), "init_batch_limit": min(RAW_SAMPLES, points)}
            return maximised(acquisition, cube, pending, q, at_once)


@dataclass(frozen=True, eq=False)
class _Read:
    """The objective, to be maximised, of standardised fields.

    Args:
        known: The fields of the trials.
        cube: The cube of the designs.
        sign: 1 where the output is minimised, else -1.
    """

    known: Snapshots
    cube: Cube
    sign: float

    @property
    def standardised(self) -> Array:
        """Fields of the trials with mean 0 and deviation 1 each, shape (n, fields, *cells) less axes of one."""
        values, (mean, sd) = self.known.values, self._scales
        scaled = (values - mean) / sd
        shape = (values.shape[1], *(self.known.shape or values.shape[2:]))
        return np.asarray(scaled.reshape(len(values), *([each for each in shape if each > 1] or [1])))

    @property
    def _scales(self) -> tuple[Array, Array]:
        """Mean and deviation of each field over trials and cells, each (fields, 1)."""
        values = self.known.values
        mean, sd = values.mean(axis=(0, 2))[:, None], values.std(axis=(0, 2))[:, None]
        return mean, np.where(sd > 0, sd, 1.0)

    def objective(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        """The objective of fields (..., q, fields, *cells) at points X (..., q, d) of the cube, shape (..., q)."""
        assert X is not None  # BoTorch gives the points with the draws
        before = samples.shape[: samples.ndim - self.standardised.ndim + 1]
        fields = samples.reshape(-1, math.prod(self.known.values.shape[1:]))
        designs = X.expand(*before, X.shape[-1]).reshape(len(fields), -1)
        both = torch.cat([fields, designs], dim=1)
        parts = 1 + 2 * both.numel() * both.shape[1] // _MOVED
        unbounded = partial(with_slopes, reach=math.inf)
        found = [differentiable(self._outputs, each, slopes=unbounded) for each in both.chunk(parts)]
        return torch.cat(found).reshape(before)

    def _outputs(self, both: Array) -> Array:
        """The objective of rows of standardised fields, followed by a point of the cube, shape (k,)."""
        fields, cells = self.known.values.shape[1:]
        mean, sd = self._scales
        split = fields * cells
        values = mean + sd * both[:, :split].reshape(-1, fields, cells)
        found = self.known.outputs(values, self.cube.encoded(both[:, split:]))
        if not np.isfinite(found).all():
            raise ValueError(
                f"botorch_composite drew fields whose output is {found[~np.isfinite(found)][0]}: let the problem's "
                "functional give finite numbers for every field near those of the runs, or use another algorithm, such "
                "as botorch_log_ei."
            )
        return -self.sign * found


def _fitted(X: Tensor, fields: Tensor) -> HigherOrderGP:
    """The high-order process of fields (n, *shape) at points X (n, d) of the cube."""
    model = HigherOrderGP(X, fields, outcome_transform=FlattenedStandardize(fields.shape[1:]), latent_init="gp")
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll_torch(likelihood, step_limit=_STEPS, optimizer=partial(Adam, lr=_RATE))
    return model


@contextmanager
def _exact_algebra() -> Iterator[None]:
    """Solve by the factors of Kronecker products, which is exact, where BoTorch would else fill the whole matrix."""
    with ExitStack() as settings:
        settings.enter_context(fast_computations(covar_root_decomposition=False, log_prob=True, solves=True))
        settings.enter_context(max_cholesky_size(1))
        yield


@contextmanager
def _explained() -> Iterator[None]:
    """Turn a failure of BoTorch's model within the block into one ValueError."""
    try:
        yield
    except (RuntimeError, BotorchError, NanError, NotPSDError) as error:
        raise ValueError(
            f"BoTorch's HigherOrderGP of the fields failed ({type(error).__name__}: {str(error).splitlines()[0]}): use "
            "another algorithm, such as botorch_log_ei."
        ) from error
