"""STO-BNTS-Linear: draws of the tangent process in closed form (Dai et al., 2022; methods.md section 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.numerics.checks import refuse_non_positive
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Report
from fieldcraft.models.tangent.kernel import Hyperparameters
from fieldcraft.models.tangent.posteriors import TangentPosterior
from fieldcraft.models.tangent.process import TangentProcess
from fieldcraft.models.tangent.settings import TangentSettings


@dataclass(frozen=True, kw_only=True)
class SampledLinear(TangentSettings):
    """f(x) = beta <row(x), v>, v the minimiser of the ridge loss from a fresh v_0 ~ N(0, I): Matheron's rule.

    Mean and variance are those of the tangent kernel's Gaussian process; no gradient descent is needed.

    Args:
        beta: Factor of a draw's deviation from the mean; 1 is a posterior draw.
        perturb_targets: Draw the results' noise too, which makes a draw exact; false is the paper's minimiser.

    Raises:
        ValueError: an option is out of range (see ``TangentSettings`` for the others).
    """

    uses_physics: ClassVar[bool] = False
    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.INFORMED})

    beta: float = 1.0
    perturb_targets: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_non_positive("beta", self.beta)

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> TangentPosterior:
        """Fit the hyper-parameters and condition on the results (see Surrogate.fit); no checkpoint is needed.

        Raises:
            ValueError: the fit would need more than ``memory_gb``, or has no finite likelihood.
        """
        shape = self.shape(data)
        found, reached = self.fit_kernel(data, shape)
        numbers = {"log_posterior": torch.tensor([reached], dtype=torch.float64)}
        theta = shape.initial(torch_generator(rng))
        posterior = self.restore(data, {**stamped(data), **found.tensors(), **numbers, "weights": theta})
        report(1, posterior.metrics, posterior.state)
        return posterior

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> TangentPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        shape, found = self.shape(data), Hyperparameters.of(state)
        return TangentPosterior(
            process=_conditioned(_Question(self, ByDigest.of(data), _told(state), state)),
            factor=self.beta,
            perturbed=self.perturb_targets,
            scaling=data.scaling,
            metrics={"log_posterior": float(state["log_posterior"]), **found.metrics()},
            remarks=self.remarks(data, shape),
            kept=dict(state),
        )


@dataclass(frozen=True)
class _Question:
    """All that a conditioned process depends on: ``told`` are the bytes of the state's numbers."""

    surrogate: SampledLinear
    trials: ByDigest
    told: tuple[bytes, ...]
    state: Mapping[str, Tensor] = field(compare=False, repr=False)


@lru_cache(maxsize=1)
def _conditioned(question: _Question) -> TangentProcess:
    """The process; the last one is kept, since the step that proposes restores what the step before it has fitted."""
    surrogate, data, state = question.surrogate, question.trials.data, question.state
    return surrogate.process(data, surrogate.shape(data), state["weights"], Hyperparameters.of(state))


def _told(state: Mapping[str, Tensor]) -> tuple[bytes, ...]:
    return tuple(state[name].numpy().tobytes() for name in ("weights", "scales", "variances"))
