"""What ``speed.py`` compares with: the papers' own algebra and the plain ways, as quick as they can be written."""

import time

import numpy as np
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from torch import Tensor

from fieldcraft.models.networks.perceptron import Network
from fieldcraft.models.observations import Observations
from fieldcraft.models.rivals._botorch import Cube, fitted, maximised
from fieldcraft.models.tangent.features import Passes, Perceptron, combine, project
from fieldcraft.physics.space import SearchSpace


def qlognei(data: Observations, space: SearchSpace) -> tuple[float, float]:
    """CPU seconds of BoTorch's fit and of a qLogNEI proposal from the fitted model, as ``botorch_qlognei`` makes it."""
    cube, began = Cube(space), time.process_time()
    model, seen = fitted(cube, data), cube.of(data.X)
    middle = time.process_time()
    maximised(
        lambda waiting: qLogNoisyExpectedImprovement(model, seen, X_pending=waiting, prune_baseline=True),
        cube,
        np.empty((0, space.dimension)),
        1,
    )
    return middle - began, time.process_time() - middle


def sherman_morrison(inverse: Tensor, g: Tensor) -> None:
    """U^-1 of U + g g^T in place, (p, p), for a new trial's features g (p,) (Neural-BO's update)."""
    image = inverse @ g
    inverse.addr_(image, image, alpha=-1.0 / float(1.0 + g @ image))


def primal_variance(inverse: Tensor, features: Tensor, ridge: float) -> Tensor:
    """ridge g^T U^-1 g of rows (c, p), by blocks, shape (c,)."""
    return torch.cat([ridge * ((block @ inverse) * block).sum(1) for block in features.split(512)])


def descend(rows: Passes, start: Tensor, y: Tensor, noise: float, steps: int) -> Tensor:
    """theta after gradient descent on |y - Phi theta|^2 + noise |theta - start|^2, shape (k, p).

    The step is 1 over the largest eigenvalue, the longest safe one, and no p-vector of features is built.
    """
    theta, probe = start.clone(), torch.ones_like(y)
    for _ in range(20):
        probe = project(rows, combine(rows, probe / probe.norm(dim=-1, keepdim=True)))
    rate = 1.0 / (probe.norm(dim=-1, keepdim=True) + noise)
    for _ in range(steps):
        theta = theta - rate * (combine(rows, project(rows, theta) - y) + noise * (theta - start))
    return theta


def descend_by_autodiff(
    network: Perceptron, at: Tensor, X: Tensor, start: Tensor, y: Tensor, noise: float, rate: float, steps: int
) -> Tensor:
    """The same steps as the papers' code takes them: value by ``jvp``, gradient by a reverse pass, shape (k, p)."""

    def loss(v: Tensor) -> Tensor:
        along = torch.func.jvp(lambda theta: network.value(theta, X), (at,), (v,))[1]
        return 0.5 * ((along - y).square().sum() + noise * (v - start).square().sum())

    theta, gradient = start.clone(), torch.func.grad(loss)
    for _ in range(steps):
        theta = theta - rate * gradient(theta)
    return theta


def double_autograd(network: Network, theta: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """sum (Laplacian h)^2 and its gradient by theta (1, p), by one automatic derivative for each coordinate."""
    theta, X = theta.detach().requires_grad_(), points.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(network.value(theta, X).sum(), X, create_graph=True)
    laplacian = sum(
        torch.autograd.grad(slopes[:, i].sum(), X, create_graph=True)[0][:, i] for i in range(points.shape[1])
    )
    loss = laplacian.square().sum()
    return loss.detach(), torch.autograd.grad(loss, theta)[0]
