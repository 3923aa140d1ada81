"""Networks trained on readings and on the residual of an equation: the rows of their loss, and what they become."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.networks import Network, Streams
from models.observations import Scaling
from models.residuals import LinearResidual, Residual
from models.surrogate import Function

_NOTHING = torch.zeros(0, dtype=torch.float64)


@dataclass(frozen=True)
class Fixed:
    """What k trainings hold fixed: all their randomness.

    Args:
        anchor: Initial weights theta_0, shape (k, p).
        tangent: The second draw theta_0', zero in the last layer, shape (k, p); (0,) where none is added.
        data_noise: Perturbation of the targets, shape (k, n); zeros where they are trusted.
        residual_noise: Perturbation of the right-hand side, shape (k, r).
    """

    anchor: Tensor
    tangent: Tensor
    data_noise: Tensor
    residual_noise: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """As tensors by name."""
        return {name: getattr(self, name) for name in ("anchor", "tangent", "data_noise", "residual_noise")}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Fixed":
        """What ``tensors`` gave."""
        return cls(**{name: tensors[name] for name in ("anchor", "tangent", "data_noise", "residual_noise")})

    @classmethod
    def plain(cls, anchor: Tensor, n: int, r: int) -> "Fixed":
        """The paper's: fresh weights and nothing else."""
        k = len(anchor)
        return cls(anchor, _NOTHING, anchor.new_zeros(k, n), anchor.new_zeros(k, r))


@dataclass(frozen=True)
class Factors:
    """The numbers in the loss: of the prediction, of a squared residual, of ||theta - theta_0||^2."""

    nu: float
    weight: float
    ridge: float


def exact_draw(
    network: Network, anchor: Tensor, n: int, r: int, noise_sd: float, residual_sd: float, generator: torch.Generator
) -> Fixed:
    """The randomness that makes a wide network's minimiser a draw from the joint posterior (methods, section 3)."""
    tangent = network.initial(len(anchor), generator)
    tangent[:, -network.width :] = 0.0
    k = len(anchor)
    data_noise = noise_sd * torch.randn(k, n, generator=generator, dtype=torch.float64)
    residual_noise = residual_sd * torch.randn(k, r, generator=generator, dtype=torch.float64)
    return Fixed(anchor, tangent, data_noise, residual_noise)


def tangent_value(network: Network, anchor: Tensor, tangent: Tensor, X: Tensor) -> Tensor:
    """<grad h(x; theta_0), theta_0'> at X (n, d), shape (k, n), differentiable in X."""

    def at(theta: Tensor) -> Tensor:
        return network.value(theta, X)

    found: Tensor = torch.func.jvp(at, (anchor,), (tangent,))[1]
    return found


class ResidualLoss:
    """sum (y + eps - nu F(x))^2 + weight sum (N[nu F](z) - g + eps')^2 + ridge ||theta - theta_0||^2 for k networks.

    F is the network, or the network plus the tangent term of an exact draw. Data and collocation points go through the
    network together, so a step costs one pass whatever is asked of it.
    """

    def __init__(
        self, network: Network, X: Tensor, targets: Tensor, residual: Residual, fixed: Fixed, factors: Factors
    ) -> None:
        """Lay out the rows for encoded X (n, d) and standardised targets (n,), on the device of ``fixed``."""
        self.network = network
        self.residual = residual
        self.n = len(X)
        self.nu = factors.nu
        self.root = factors.weight**0.5
        self.ridge = factors.ridge
        self.anchor = fixed.anchor
        self.targets = targets + fixed.data_noise
        self.shift = fixed.residual_noise
        self.points = torch.cat([X, residual.points])
        self.forms = residual.forms
        if residual.forms.shape[1] > 1:
            # Data rows use no second derivative: any form serves there.
            idle = residual.forms[:, :1].expand(-1, self.n, -1, -1)
            self.forms = torch.cat([idle, residual.forms], dim=1)
        self.offset = self._tangent_rows(fixed) if len(fixed.tangent) else torch.zeros_like(self.targets[:, :0])

    def rows(self, theta: Tensor) -> Tensor:
        """Rows at theta (k, p), shape (k, n + r)."""
        return self._rows(self.network.streams(theta, self.points, self.forms))

    def linearised(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (k, n + r) and their Jacobian (k, n + r, p)."""
        with torch.enable_grad():
            streams, passed = self.network.propagated(theta.detach().requires_grad_(), self.points, self.forms)
            rows = self._rows(streams)
            jacobian = self.network.jacobian(passed, rows)
        return rows.detach(), jacobian

    def metrics(self, theta: Tensor) -> dict[str, float]:
        """Root mean square of the misfit of the data (target sd) and of the residual (relative), over all networks."""
        rows = self.rows(theta).detach()
        data, physics = rows[:, : self.n], rows[:, self.n :] / self.root
        return {"misfit": float(data.square().mean().sqrt()), "residual": float(physics.square().mean().sqrt())}

    def _rows(self, streams: Streams) -> Tensor:
        data, physics = self._split(streams)
        rows = torch.cat([data - self.targets, self.root * (self.residual.rows(physics) + self.shift)], dim=1)
        return rows + self.offset if self.offset.shape[1] else rows

    def _split(self, streams: Streams) -> tuple[Tensor, Streams]:
        n, nu = self.n, self.nu
        later = Streams(nu * streams.value[:, n:], nu * streams.gradient[:, n:], nu * streams.second[:, n:])
        return nu * streams.value[:, :n], later

    def _tangent_rows(self, fixed: Fixed) -> Tensor:
        """The tangent term's share of the rows; it is linear, so its N-image is J(theta_0) theta_0'."""
        if not isinstance(self.residual, LinearResidual):
            raise ValueError("exact_draw is true and the equation is not linear: set exact_draw to false.")
        with torch.enable_grad():
            start = fixed.anchor.detach().clone().requires_grad_()
            streams, passed = self.network.propagated(start, self.points, self.forms)
            data, physics = self._split(streams)
            rows = torch.cat([data, self.root * self.residual.image(physics)], dim=1)
            jacobian = self.network.jacobian(passed, rows)
        return (jacobian @ fixed.tangent[..., None])[..., 0]


@dataclass(frozen=True)
class NetworkPosterior:
    """k trained networks, each one draw; means and variances are over them.

    Args:
        network: Their shape.
        theta: Trained weights, shape (k, p), float64 on the CPU.
        fixed: What their training held fixed.
        nu: Factor of the prediction.
        scaling: How targets become readings.
        metrics: What the training achieved.
        rest: The last checkpoint of the training, as tensors.
    """

    network: Network
    theta: Tensor
    fixed: Fixed
    nu: float
    scaling: Scaling
    metrics: Mapping[str, float]
    rest: Mapping[str, Tensor]

    @property
    def remarks(self) -> Mapping[str, str]:
        """None."""
        return {}

    def _values(self, X: Tensor, which: slice) -> Tensor:
        values = self.network.value(self.theta[which], X)
        if len(self.fixed.tangent):
            values = values + tangent_value(self.network, self.fixed.anchor[which], self.fixed.tangent[which], X)
        return self.nu * values

    def mean_var(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over the networks at X (n, d); one network has variance 0."""
        values = self._values(X, slice(None))
        mean = values.mean(0)
        return mean, (values - mean).square().sum(0) / max(len(values) - 1, 1)

    def draw(self, q: int, rng: np.random.Generator) -> list[Function]:
        """Networks 0 to q - 1: each is an independent draw already, so rng is not used.

        Raises:
            ValueError: there are fewer networks than q.
        """
        if q > len(self.theta):
            raise ValueError(
                f"{q} draws were asked of {len(self.theta)} trained networks: set `networks` to the batch size or more."
            )
        return [self._function(i) for i in range(q)]

    def _function(self, i: int) -> Function:
        def function(X: Tensor) -> Tensor:
            return self._values(X, slice(i, i + 1))[0]

        return function

    def believe(self, X: Tensor) -> "NetworkPosterior":
        """This posterior itself: its draws are independent by construction, so a pending point changes none of them."""
        return self

    def state(self) -> dict[str, Tensor]:
        """The last checkpoint of the training."""
        return dict(self.rest)
