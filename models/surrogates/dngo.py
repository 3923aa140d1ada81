"""DNGO (Snoek et al., 2015): Bayesian linear regression on the last hidden layer of a trained network."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.linear.basis_evidence import choose_prior
from fieldcraft.models.linear.feature_posterior import FeaturePosterior
from fieldcraft.models.linear.linear_model import LinearModel
from fieldcraft.models.networks.ensembles import Training, metrics_of
from fieldcraft.models.networks.perceptron import Activation, Network
from fieldcraft.models.numerics.digests import refuse_other_data
from fieldcraft.models.observations import Observations
from fieldcraft.models.surrogate import Function, Report

# Least noise variance, in squared target units and relative to the features' own, that a factor in float64 allows.
_LEAST_NOISE = 1e-6
_ROUNDING = 1e-13


@dataclass(frozen=True)
class DNGO:
    """t = phi(x)^T w + noise, w ~ N(0, I / alpha), noise of precision beta, phi the last hidden layer and a constant.

    alpha and beta maximise the evidence (beta only where the noise is not known). The results' predictive densities
    have no closed form, because phi was trained on all of them.

    Args:
        width: Number of features less one, the neurons in a hidden layer.
        depth: Hidden layers.
        activation: tanh or sine.
        frequency: Factor on the first layer's weights; larger means rougher functions before any data.
        steps: Adam steps.
        rate: Adam's first step size.
        refinements: Damped Gauss-Newton steps after Adam.
        noise: Standard deviation of a result, in target units, if it is not known; its square is the ridge.
        memory_gb: A fit whose predicted peak of memory, in GB (10^9 bytes), is above this is refused.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False

    width: int = 50
    depth: int = 3
    activation: Activation = "tanh"
    frequency: float = 2.0
    steps: int = 0
    rate: float = 0.01
    refinements: int = 60
    noise: float = 0.1
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        self._training()

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> FeaturePosterior:
        """Train the network, then choose alpha and beta (see Surrogate.fit).

        Raises:
            ValueError: ``start`` is of other data, the loss became non-finite again after every restart, or the fit
                would need more than ``memory_gb``.
        """
        training = self._training()
        state = training.run(data, rng, start, report)
        rows = _last_layer(training.network(data), state["theta"])(torch.tensor(data.X))
        known = None if data.noise_variance is None else max(data.noise_variance, _LEAST_NOISE)
        degrees = np.zeros(rows.shape[1])
        prior, evidence = choose_prior(rows.numpy(), degrees, data.targets, known, decays=(0.0,))
        scale = float(prior.sizes(degrees)[0])
        noise = max(prior.noise, _ROUNDING * scale**2 * float(rows.square().sum()))
        head = torch.tensor([scale, noise, evidence], dtype=torch.float64)
        return self.restore(data, {**state, "head": head})

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> FeaturePosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        scale, noise, evidence = (float(number) for number in state["head"])
        last = _last_layer(self._training().network(data), state["theta"])

        def features(X: Tensor) -> Tensor:
            return last(X) * scale

        return FeaturePosterior(
            features=features,
            model=LinearModel.of(features(torch.tensor(data.X)), noise),
            y=torch.tensor(data.targets),
            constant=0.0,
            scaling=data.scaling,
            metrics={**metrics_of(state), "log_evidence": evidence, "scale": scale, "noise_sd": noise**0.5},
            kept=state,
        )

    def _training(self) -> Training:
        return Training(networks=1, **asdict(self))


def _last_layer(network: Network, theta: Tensor) -> Function:
    """Function from points (n, d) to the last hidden layer's outputs and a constant, shape (n, width + 1)."""

    def features(X: Tensor) -> Tensor:
        activations = network.hidden(theta, X)[0]
        return torch.cat([activations, torch.ones_like(X[:, :1])], dim=1)

    return features
