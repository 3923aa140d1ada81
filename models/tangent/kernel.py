"""Normalised tangent kernel with relevance, and its hyper-parameters.

    k(x, x') = s_f^2 <phi(x/l), phi(x'/l)> / (|phi(x/l)| |phi(x'/l)|) + c

with phi the tangent rows of a network at its initial weights, l one length scale a coordinate (one for all pixels of an
image), s_f^2 the output scale and c the prior variance of a constant mean, which is one more row (methods.md section
0). ``normalised: false``, l = s_f = 1 and c = 0 are the papers' raw kernel.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fieldcraft.models.tangent.features import Layer, Passes, TangentFeatures, diagonal, project, scaled

LEAST_LENGTH = 1e-12
"""Squared length of a row below which it is not made one: of dead neurons only, it is zero and stays zero."""
LEAST_NOISE = 1e-6
"""Noise variance of a target below which a covariance of close points has no Cholesky factor in float64."""


@dataclass(frozen=True)
class Hyperparameters:
    """Hyper-parameters of the kernel, in target units.

    Args:
        scales: Length scale l of each encoded coordinate, shape (d,).
        output: s_f^2, variance.
        constant: c, variance.
        noise: Variance of a result.
    """

    scales: Tensor
    output: float
    constant: float
    noise: float

    def times(self, factor: float) -> "Hyperparameters":
        """Hyper-parameters with all variances times a factor: the same physical sizes in other target units."""
        noise = max(self.noise * factor, LEAST_NOISE)
        return Hyperparameters(self.scales, self.output * factor, self.constant * factor, noise)

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by name."""
        variances = torch.tensor([self.output, self.constant, self.noise], dtype=torch.float64)
        return {"scales": self.scales, "variances": variances}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Hyperparameters":
        """Hyper-parameters restored from their ``tensors``."""
        return cls(tensors["scales"], *(float(v) for v in tensors["variances"]))

    def metrics(self) -> dict[str, float]:
        """Noise and output standard deviations of a target, and the length scales, by name."""
        scales = {f"length_scale_{i}": float(scale) for i, scale in enumerate(self.scales)}
        return {"noise_sd": math.sqrt(self.noise), "output_sd": math.sqrt(self.output), **scales}


@dataclass(frozen=True, eq=False)
class TangentKernel:
    """The kernel at given weights and hyper-parameters; several networks of one shape give several kernels.

    Args:
        network: Shape of the network.
        theta: Initial weights, shape (..., p), or (..., 2p) for an antisymmetric pair, whose kernel is the same.
        scales: l, shape (d,).
        output: s_f^2, a number or a scalar tensor.
        constant: c >= 0.
        normalised: True if the rows are divided by their length.
    """

    network: TangentFeatures
    theta: Tensor
    scales: Tensor
    output: float | Tensor
    constant: float | Tensor
    normalised: bool

    @classmethod
    def stacked(cls, kernels: "Sequence[TangentKernel]") -> "TangentKernel":
        """One kernel for c kernels of networks of one shape; what depends on the network has an axis (c, ...)."""
        return replace(
            kernels[0],
            theta=torch.stack([each.theta for each in kernels]),
            scales=torch.stack([each.scales for each in kernels])[:, None],
            output=column(each.output for each in kernels),
            constant=column(each.constant for each in kernels),
        )

    @property
    def size(self) -> int:
        """Number of coordinates of a row, the constant's counted."""
        return self.theta.shape[-1] + 1

    @property
    def root_constant(self) -> Tensor:
        """sqrt(c), a scalar, or (c, 1) for stacked kernels."""
        return torch.as_tensor(self.constant, dtype=self.theta.dtype, device=self.theta.device).sqrt()

    def rows(self, X: Tensor) -> Passes:
        """Rows with <row(x), row(x')> = k(x, x') at X (n, d), differentiable in X."""
        passes = self.passes(X)
        return self.joined(passes, self.factors(passes))

    def along(self, X: Tensor, direction: Tensor) -> Tensor:
        """<row(x), v> at X (n, d), shape (n,), for v (p + 1,); computed by scaling the products and not the rows."""
        passes = self.passes(X)
        products = project(passes, direction[..., :-1])
        return self.factors(passes) * products + self.root_constant * direction[..., -1:]

    def passes(self, X: Tensor) -> Passes:
        """The network's own rows phi(x/l) at X (n, d)."""
        return self.network.passes(self.theta, X / self.scales)

    def factors(self, passes: Passes) -> Tensor:
        """s_f / |phi(x/l)|, or s_f where the kernel is not normalised, shape (..., n), for the rows phi(x/l)."""
        lengths = diagonal(passes)
        root = torch.as_tensor(self.output, dtype=lengths.dtype, device=lengths.device).sqrt()
        return root * (lengths.clamp_min(LEAST_LENGTH).rsqrt() if self.normalised else torch.ones_like(lengths))

    def joined(self, passes: Passes, factors: Tensor) -> Passes:
        """The rows of ``passes`` times ``factors`` (..., n), and the constant's row."""
        one = torch.ones_like(factors)
        constant = Layer((self.root_constant * one)[..., None, None], one[..., None, None], 1.0)
        return Passes((*scaled(passes, factors).layers, constant))


def column(numbers: Iterable[float | Tensor]) -> Tensor:
    """One number for each of c networks, shape (c, 1), float64, to multiply arrays with a column for each point."""
    return torch.tensor([float(each) for each in numbers], dtype=torch.float64)[:, None]
