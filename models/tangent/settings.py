"""Settings of all tangent surrogates, and the network, kernel and conditioned process made of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.length_scales import tangent_centre, tangent_centres
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.numerics.milestones import milestone
from fieldcraft.models.observations import Observations
from fieldcraft.models.tangent.convolution import Convolution
from fieldcraft.models.tangent.evidence import FIT_ROWS, hyperparameters
from fieldcraft.models.tangent.evidence_together import hyperparameters_together
from fieldcraft.models.tangent.features import Activation, Init, Perceptron, TangentFeatures
from fieldcraft.models.tangent.kernel import Hyperparameters, TangentKernel
from fieldcraft.models.tangent.mirrored import Mirrored
from fieldcraft.models.tangent.process import TangentProcess

RANDOM_FEATURES = 2000
"""Most weights of the narrower network that stands in above ``n_exact`` trials."""

_GAINS: dict[Activation, float] = {"sine": 1.0, "erf": 1.5, "tanh": 1.5, "relu": math.sqrt(2)}
_WIDTH, _IMAGE_WIDTH = 500, 64
_PATCH = 10  # numbers in a pixel's surroundings, the constant counted
# Arrays of n x n numbers alive at once while conditioning, while fitting (a gradient
# keeps its intermediates) and for each network in training.
_CONDITIONING, _FITTING, _TRAINING = 6, 24, 4


@dataclass(frozen=True, kw_only=True)
class TangentSettings:
    """Options of every tangent surrogate.

    Args:
        width: Neurons m in each hidden layer. None: 500, and 64 beside a convolution, whose weights are that times
            pixels and channels.
        depth: Hidden layers of a dense network; a convolution has one beside it, so 1.
        activation: psi: sine, erf, tanh or relu.
        w_std: Factor on every layer's weights over sqrt(fan-in). None: for one hidden layer so that the first layer's
            weights are of order 1 on x/l and on the constant coordinate, which makes a sine layer close to a stationary
            process; for more layers the activation's own (1, 1.5 or sqrt 2). For a raw relu kernel (``normalised``
            false) the papers' size: sqrt(m) times a network whose weights are N(0, 1/m) (Phan-Trong et al., 2023) is
            this one with (d + 1)^(1 / (2 (depth + 1))).
        b_std: Factor on the bias weights; 0 for none beside the constant input, as for a convolution.
        network: ``convolution`` for designs with one image, ``dense`` for others. ``auto`` is dense in
            ``tangent_network``. Elsewhere it looks at the data, and is dense where depth or b_std is given, which a
            convolution does not have.
        channels: Channels of the convolution.
        hyperparameters: ``fitted`` by marginal likelihood, or ``fixed``: l = s_f = 1, no constant, noise as stated.
        normalised: True if rows are divided by their length; false with fixed hyper-parameters is the papers' kernel.
        noise: lambda, the noise variance of a target if hyper-parameters are fixed.
        n_exact: Trials above which a narrower network (at most 2,000 weights) is used instead: random features.
        memory_gb: A fit that is predicted to need more is refused before anything is allocated.

    Raises:
        ValueError: a number is out of its range.
    """

    convolves: ClassVar[bool] = True
    """True if ``auto`` is a convolution for designs with one image."""

    width: int | None = None
    depth: int = 1
    activation: Activation = "sine"
    w_std: float | None = None
    b_std: float = 0.0
    network: Literal["auto", "dense", "convolution"] = "auto"
    channels: int = 16
    hyperparameters: Literal["fitted", "fixed"] = "fitted"
    normalised: bool = True
    noise: float = 0.01
    n_exact: int = 5000
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        for name in (*(["width"] if self.width is not None else []), "depth", "channels", "n_exact"):
            refuse_below(name, getattr(self, name))
        for name in ("noise", "memory_gb", *(["w_std"] if self.w_std is not None else [])):
            refuse_non_positive(name, getattr(self, name))
        if not (math.isfinite(self.b_std) and self.b_std >= 0):
            raise ValueError(f"b_std is {self.b_std}: give a number >= 0.")
        if self.activation not in _GAINS:
            raise ValueError(f"activation is {self.activation!r}: choose one of {', '.join(_GAINS)}.")

    @property
    def trainings(self) -> int:
        """Number of networks that are trained together."""
        return 0

    @property
    def kernel_init(self) -> Init:
        """Initialisation of the process's tangent rows; those of an antisymmetric pair are those of one network."""
        return "gaussian"

    def require_images(self, count: int) -> None:
        """Accept designs with so many images.

        Raises:
            ValueError: a convolution was requested and there is no image, or more than one, or depth or b_std is given.
        """
        if self.network != "convolution":
            return
        if count != 1:
            raise ValueError(
                f"A convolution takes one image and this space has {count}: set network to dense, or give the space "
                "exactly one image parameter."
            )
        if self.depth != 1 or self.b_std != 0:
            raise ValueError(
                f"depth is {self.depth} and b_std is {self.b_std:g}, and a convolution has one dense layer without "
                "bias: set depth to 1 and b_std to 0, or network to dense."
            )

    def shape(self, data: Observations) -> TangentFeatures:
        """The network for data, narrowed where there are more than ``n_exact`` trials.

        Raises:
            ValueError: a convolution was requested and there is no image, or more than one, or depth or b_std is given.
        """
        network = self._shape(data)
        if len(data) <= self.n_exact:
            return network
        while network.size > RANDOM_FEATURES and network.width > 1:
            network = _narrower(network)
        return network

    def fit_kernel(self, data: Observations, shape: TangentFeatures) -> tuple[Hyperparameters, float]:
        """The hyper-parameters and their log posterior (0 where they are fixed).

        Raises:
            ValueError: the fit would need more than ``memory_gb``, or has no finite likelihood.
        """
        self._refuse_memory(len(data), shape)
        if self.hyperparameters == "fitted":
            centres = self._centres(data.X.shape[1], shape)
            return hyperparameters(shape, data, centres, normalised=self.normalised, init=self.kernel_init)
        return Hyperparameters(torch.ones(data.X.shape[1], dtype=torch.float64), 1.0, 0.0, self.noise), 0.0

    def fit_kernels(
        self, data: Sequence[Observations], shape: TangentFeatures
    ) -> Sequence[tuple[Hyperparameters, float]]:
        """``fit_kernel`` for several outputs of the same trials.

        Raises:
            ValueError: as for ``fit_kernel``.
        """
        if self.hyperparameters == "fixed":
            return [self.fit_kernel(own, shape) for own in data]
        self._refuse_memory(len(data[0]), shape)
        centres = self._centres(data[0].X.shape[1], shape)
        return hyperparameters_together(shape, data, centres, normalised=self.normalised, init=self.kernel_init)

    def kernel(self, shape: TangentFeatures, theta: Tensor, found: Hyperparameters) -> TangentKernel:
        """The kernel at theta (..., p) or (..., 2p)."""
        return TangentKernel(shape, theta, found.scales, found.output, found.constant, self.normalised)

    def process(
        self, data: Observations, shape: TangentFeatures, theta: Tensor, found: Hyperparameters
    ) -> TangentProcess:
        """The process at one network's theta (p,), conditioned on data."""
        return TangentProcess.of(self.kernel(shape, theta, found), found, data)

    def remarks(self, data: Observations, shape: TangentFeatures) -> Mapping[str, str]:
        """Remarks on what is done differently because of the number of trials."""
        n, remarks = len(data), {}
        if self.hyperparameters == "fitted" and n > FIT_ROWS:
            remarks["hyperparameters"] = f"from {min(FIT_ROWS, milestone(n))} of {n} trials"
        if n > self.n_exact:
            reason = f"{n} trials > n_exact {self.n_exact}"
            remarks["fallback"] = f"random features: {reason}; a network of {shape.size} weights"
        return remarks

    def _shape(self, data: Observations) -> Perceptron | Convolution | Mirrored:
        d = data.X.shape[1]
        plain = not self.convolves or len(data.images) != 1 or self.depth != 1 or self.b_std != 0
        if self.network == "dense" or (self.network == "auto" and plain):
            return Perceptron(d, self.width or _WIDTH, self.depth, self.activation, self._w_std(d), self.b_std)
        self.require_images(len(data.images))
        (image,) = data.images
        gain = self.w_std if self.w_std is not None else _GAINS[self.activation]
        width = self.width or _IMAGE_WIDTH
        return Convolution(d, image.first, image.shape, self.channels, width, self.activation, gain)

    def _w_std(self, d: int) -> float:
        if self.w_std is not None:
            return self.w_std
        if self.activation == "relu" and not self.normalised:
            # relu is homogeneous: only the product of all layers' factors counts, w_std^(depth + 1) / sqrt(d + 1).
            return float((d + 1) ** (0.5 / (self.depth + 1)))
        gain = _GAINS[self.activation]
        return gain * math.sqrt(d + 1) if self.depth == 1 and self.activation != "relu" else gain

    def _centres(self, d: int, shape: TangentFeatures) -> tuple[float, ...]:
        """Centres of the length scales' priors over d coordinates; a convolution sees patches of few pixels."""
        if isinstance(shape, Convolution):
            return (tangent_centre(self.activation),)
        return tangent_centres(d, self.activation)

    def _refuse_memory(self, n: int, shape: TangentFeatures) -> None:
        small = min(n, shape.size + 1)
        fitted = min(n, FIT_ROWS) if self.hyperparameters == "fitted" else 0
        explicit = 3 * n * (shape.size + 1) if n > shape.size else 0
        trained = _TRAINING * self.trainings * n**2 if n <= self.n_exact else 0
        passes = self._passes(n, fitted, shape)
        numbers = _CONDITIONING * small**2 + explicit + _FITTING * fitted**2 + trained + passes
        remedy = f"lower n_exact ({self.n_exact}) or width ({shape.width})"
        refuse_memory(numbers, self.memory_gb, f"A fit to {n} trials", remedy)

    def _passes(self, n: int, fitted: int, shape: TangentFeatures) -> int:
        """Count of numbers in the rows of n trials, once for each network in training, and in the gradient of a fit."""
        if not isinstance(shape, Convolution):
            return 8 * n * shape.width * self.depth
        rows = 8 * n * shape.width + n * shape.pixels * (_PATCH + 4 * shape.channels) + 4 * shape.size
        return max(1, self.trainings) * rows + 12 * fitted * shape.pixels * shape.channels


def _narrower(network: Perceptron | Convolution | Mirrored) -> Perceptron | Convolution | Mirrored:
    width = max(1, int(0.9 * network.width))
    if isinstance(network, Convolution):
        return replace(network, width=width, channels=max(1, int(0.9 * network.channels)))
    return replace(network, width=width)
