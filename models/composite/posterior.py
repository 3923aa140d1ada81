"""Posterior of a computed objective, from a posterior of each of the outputs that it is computed from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.data.composite import Composite
from fieldcraft.models.numerics.point_sets import normal_samples
from fieldcraft.models.numerics.states import named
from fieldcraft.models.observations import Array, Observations, Scaling
from fieldcraft.models.surrogate import Function, Posterior, coarse, means

_SAMPLES = 256
"""Joint values of the parts by which moments are estimated."""

_MOST = 700.0
"""Logarithm of the largest moment of a part that is learnt by its logarithm."""


@dataclass(frozen=True, eq=False)
class CompositePosterior:
    """Beliefs about an objective g(f_1, ..., f_k), with f_j the parts, taken as independent.

    The moments of a distance from a target or a band are known in closed form. Those of a formula are means over 256
    joint values of the parts, of a fixed scrambled Sobol sequence; one that is not finite counts as the worst result.

    Args:
        parts: Beliefs about each part, as it is learnt (``Composite.learnt``).
        data: The observations behind them.
    """

    parts: tuple[Posterior, ...]
    data: Observations

    @property
    def composite(self) -> Composite:
        """The parts as arrays."""
        assert self.data.composite is not None  # there are parts
        return self.data.composite

    @property
    def scaling(self) -> Scaling:
        """Scaling of the objective's own results."""
        return self.data.scaling

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the parts with the prefix ``part1.`` ..."""
        return self._all("metrics")

    @property
    def remarks(self) -> Mapping[str, str]:
        """Remarks of the parts with the prefix ``part1.`` ..., and what these are."""
        bent = [name for name, log in zip(self.composite.names, self.composite.logarithmic, strict=True) if log]
        told = f"computed ({self.composite.formula}) from beliefs about {', '.join(self.composite.names)}"
        return {"parts": told + (f"; logarithms of {', '.join(bent)}" if bent else ""), **self._all("remarks")}

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of the noise-free objective at X (n, d), in targets."""
        if self.composite.band is not None:
            mean, square = self._of_band(X, self.composite.band)
            variance, scale = (square - mean.square()).clamp_min(0.0), self.scaling
            return (mean - scale.mean) * scale.sign / scale.sd, variance / scale.sd**2
        found = self.sampled(X, normal_samples(_SAMPLES, len(self.parts), 0))
        return found.mean(dim=0), found.var(dim=0)

    def sampled(self, X: Tensor, base: Tensor) -> Tensor:
        """Values of the objective at X (n, d), in targets, for joint values of the parts; shape (s, n).

        Args:
            X: Encoded points.
            base: Standard normal values of the parts, shape (s, k).
        """
        values = []
        for j, part in enumerate(self.parts):
            mean, variance = part.mean_var(X)
            values.append(mean + base[:, j, None] * variance.clamp_min(1e-18).sqrt())
        return self.of(values, X)

    def at_means(self, X: Tensor) -> Tensor:
        """The objective of the parts' means at X (n, d), in targets, shape (n,)."""
        return self.of([means(part, X) for part in self.parts], X)

    def of(self, targets: Sequence[Tensor], X: Tensor) -> Tensor:
        """The objective, in targets, of parts in their targets, each (..., n), at X (n, d); the worst if not finite."""
        for each in targets:
            if each.requires_grad:  # a value that does not count has no gradient, be it infinite
                each.register_hook(_finite)  # type: ignore[no-untyped-call]
        scales = [part.scaling for part in self.parts]
        learnt = [s.mean + s.sign * s.sd * each for s, each in zip(scales, targets, strict=True)]
        found = (self.composite.of(learnt, X, self.data.columns) - self.scaling.mean) * (
            self.scaling.sign / self.scaling.sd
        )
        return torch.where(torch.isfinite(found), found, float(self.data.targets.max()))

    def in_units(self, X: Array) -> list[tuple[float, float]]:
        """Mean and standard deviation of each noise-free part at X (1, d), in its unit.

        Of a part that is learnt by its logarithm those of the log-normal: e^(m + v/2), and that times sqrt(e^v - 1);
        each at most e^700, so that it is a number.
        """
        found = []
        for part, log in zip(self.parts, self.composite.logarithmic, strict=True):
            with torch.no_grad():
                mean, variance = part.mean_var(torch.as_tensor(X))
            m, v = float(part.scaling.to_physical(float(mean[0]))), part.scaling.sd**2 * float(variance[0])
            found.append(_log_normal(m, v) if log else (m, math.sqrt(v)))
        return found

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """q functions, each computed from one draw of every part."""
        drawn = list(zip(*(part.draw(q, rng) for part in self.parts), strict=True))
        return [partial(self._drawn, each) for each in drawn]

    def _drawn(self, functions: Sequence[Function], X: Tensor) -> Tensor:
        return self.of([function(X) for function in functions], X)

    def fantasize(self, X: Tensor) -> "CompositePosterior":
        """The posterior as if every part had been read at X (k, d) at its mean."""
        return replace(self, parts=tuple(part.fantasize(X) for part in self.parts))

    @property
    def coarse(self) -> "CompositePosterior":
        """The same, with the parts in their coarse forms where they have them."""
        return replace(self, parts=tuple(coarse(part) for part in self.parts))

    def state(self) -> dict[str, Tensor]:
        """States of the parts."""
        return {
            key: value
            for j, part in enumerate(self.parts, 1)
            for key, value in named(f"part{j}.", part.state()).items()
        }

    @property
    def uncertain(self) -> bool:
        """True if results of the parts, or of the objective, are known to have noise."""
        return self.data.uncertain or bool(self.composite.sds.size and np.nansum(self.composite.sds) > 0)

    def _of_band(self, X: Tensor, band: tuple[float, float]) -> tuple[Tensor, Tensor]:
        """Means (n,) of the distance from a band and of its square, in the output's unit.

        With u = (m - high) / sd: E[(f - high)+] = sd (phi(u) + u Phi(u)), E[(f - high)+^2] = sd^2 ((1 + u^2) Phi(u) +
        u phi(u)); likewise below the band.
        """
        part, scale = self.parts[0], self.parts[0].scaling
        mean, variance = part.mean_var(X)
        m, sd = scale.mean + scale.sign * scale.sd * mean, scale.sd * variance.clamp_min(1e-18).sqrt()
        first, second = torch.zeros_like(m), torch.zeros_like(m)
        for u in ((m - band[1]) / sd, (band[0] - m) / sd):
            density, below = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi), torch.special.ndtr(u)
            first = first + sd * (density + u * below)
            second = second + sd.square() * ((1 + u.square()) * below + u * density)
        return first, second

    def _all(self, attribute: str) -> dict[str, Any]:
        return {
            f"part{j}.{name}": value
            for j, part in enumerate(self.parts, 1)
            for name, value in getattr(part, attribute).items()
        }


def _log_normal(m: float, v: float) -> tuple[float, float]:
    spread = m + v + math.log(-math.expm1(-v)) / 2 if v > 0 else -math.inf
    return math.exp(min(m + v / 2, _MOST)), math.exp(min(spread, _MOST))


def _finite(gradient: Tensor) -> Tensor:
    return gradient.nan_to_num(0.0, 0.0, 0.0)
