"""Gaussian process about a constant or, where that predicts better, about a polynomial (universal kriging)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.gaussian.fit import stated_noise
from fieldcraft.models.gaussian.inducing import InducedPosterior
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.gradients.posterior import GradientPosterior
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.trend.choice import trended
from fieldcraft.models.trend.process import KERNEL, TRENDED, Trended, TrendedPosterior

# Trials of which a polynomial is asked at most; beyond, the process alone bends to all that they tell.
_MOST = 1000
_NAMES = {1: "linear", 2: "quadratic"}

Made = ExactPosterior | InducedPosterior | GradientPosterior | TrendedPosterior


@dataclass(frozen=True)
class TrendGP:
    """``exact_gp`` with ``kernel: chosen``, about a polynomial where the results ask for one.

    Many responses of engineering models are nearly a polynomial of their variables: a mass is a sum of sizes, a stress
    bends once. A process about a constant learns that from many results only, and foretells the corners of the box
    badly. So a linear and a quadratic polynomial, with a process about it, compete with the two processes of
    ``kernel: chosen``: each fifth of the results is foretold from the others, and a polynomial is taken where it does
    better by 3 nats, judged whenever the trials have grown by a tenth. ``remarks`` names it.

    The coefficients have a normal prior whose variance the results determine, and the constant none (universal kriging:
    Rasmussen and Williams, 2006, section 2.7). Beside gradients, and of more than 1,000 trials, it is ``exact_gp``.

    Args:
        noise: As in ``exact_gp``.
        restarts: As in ``exact_gp``.
        memory_gb: As in ``exact_gp``.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = True
    weighs_results: ClassVar[bool] = True

    noise: Literal["fitted", "known"] = "fitted"
    restarts: int = 2
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        _ = self.constant

    @cached_property
    def constant(self) -> ExactGP:
        """The surrogate whose processes are about a constant."""
        return ExactGP(kernel="chosen", noise=self.noise, restarts=self.restarts, memory_gb=self.memory_gb)

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> Made:
        """Fit the hyper-parameters (see Surrogate.fit). A fit takes seconds at most, so ``start`` is not needed.

        Raises:
            ValueError: as for ``exact_gp``.
        """
        self.constant.refuse(data)
        asked = len(data) <= _MOST and not self.constant.joins(data)
        found = trended(data, self.noise == "known") if asked else None
        if found is None:
            return self.constant.fit(data, rng, start, report)
        made = self._about(data, found)
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> Made:
        """The posterior whose state this was (see Surrogate.restore).

        Raises:
            ValueError: the state is of other data.
        """
        if TRENDED not in state:
            return self.constant.restore(data, state)
        refuse_other_data(data, state)
        return self._about(data, Trended.of(state[TRENDED]))

    def _about(self, data: Observations, found: Trended) -> TrendedPosterior:
        _, own = stated_noise(data, known=self.noise == "known")
        readings = None if own is None else torch.from_numpy(own)
        arrays = torch.tensor(data.X), torch.tensor(data.targets), readings
        remarks = {**self.constant.notes(data, KERNEL), "kernel": f"rbf about a {_NAMES[found.degree]} polynomial"}
        return TrendedPosterior(found, *arrays, data.scaling, remarks, stamped(data))
