"""Random Fourier features of stationary kernels (Rahimi and Recht, 2007)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.surrogate import Function

Kernel = Literal["matern12", "matern32", "matern52", "rbf"]

# Spectral density of the Matern kernel of smoothness nu: a multivariate t with 2 nu degrees of freedom.
_MATERN_DEGREES: dict[Kernel, int] = {"matern12": 1, "matern32": 3, "matern52": 5}


@dataclass(frozen=True, eq=False)
class Waves:
    """x -> sum_j c_j cos(<w_j, x> - p_j).

    Args:
        frequencies: w, shape (m, d).
        phases: p, shape (m,).
        sizes: c, shape (m,).
    """

    frequencies: Tensor
    phases: Tensor
    sizes: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        """Values (n,) at X (n, d), differentiable."""
        return self._angles(X).cos() @ self.sizes

    def value_and_grad(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n,) and gradients (n, d) at X (n, d)."""
        angles = self._angles(X.detach())
        return angles.cos() @ self.sizes, angles.sin_().mul_(-self.sizes) @ self.frequencies

    @cached_property
    def coarse(self) -> Function:
        """The values in single precision, which take half the time."""
        single = Waves(self.frequencies.float(), self.phases.float(), self.sizes.float())
        return lambda X: single(X.float()).double()

    def _angles(self, X: Tensor) -> Tensor:
        return torch.addmm(-self.phases, X, self.frequencies.mT)


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """phi(x) = (cos W x, sin W x) / sqrt(m), so that <phi(x), phi(x')> is the mean of cos(w_j (x - x')).

    Args:
        frequencies: W, shape (m, d), for encoded points.
    """

    frequencies: Tensor

    @classmethod
    def drawn(cls, kernel: Kernel, scales: Tensor, features: int, rng: np.random.Generator) -> "FourierFeatures":
        """Features of a kernel with length scales (d,) in encoded coordinates; ``features`` = 2 m, rounded up."""
        m, d = math.ceil(features / 2), len(scales)
        normal = rng.standard_normal((m, d))
        if kernel in _MATERN_DEGREES:
            degrees = _MATERN_DEGREES[kernel]
            normal *= np.sqrt(degrees / rng.chisquare(degrees, (m, 1)))
        return cls(torch.from_numpy(normal) / scales)

    def combined(self, theta: Tensor) -> Waves:
        """x -> <phi(x), theta> for theta (2 m,), differentiable: one cosine with a phase for each frequency."""
        along, across = theta.reshape(2, -1)
        sizes = torch.hypot(along, across) / math.sqrt(len(self.frequencies))
        phases = torch.atan2(across, along)
        return Waves(self.frequencies, phases, sizes)

    def __call__(self, X: Tensor) -> Tensor:
        """phi at X (n, d), shape (n, 2 m), differentiable."""
        phase = X @ self.frequencies.mT
        return torch.cat([phase.cos(), phase.sin()], dim=1) / math.sqrt(len(self.frequencies))
