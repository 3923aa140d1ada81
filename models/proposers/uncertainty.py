"""Uncertainty sampling under a tangent kernel (STO-BNTS, appendix B): designs where the model is least certain."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.coordinates.model_coordinates import ModelCoordinates
from fieldcraft.models.linear.conditioning import Factor
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.numerics.point_sets import sobol_points, take
from fieldcraft.models.numerics.randomness import torch_generator
from fieldcraft.models.observations import Array
from fieldcraft.models.proposer import checked_range
from fieldcraft.models.tangent.features import Activation, Passes, Perceptron, diagonal, gram, scaled
from fieldcraft.models.tangent.kernel import LEAST_LENGTH
from fieldcraft.physics.space import SearchSpace

# Points chosen from one pool of candidates before the next is drawn; part of the sequence's definition.
_POINTS = 64
# Noise variance of a result, relative to the largest prior variance of a pool; and what is rounding of it.
_NOISE = 1e-4
_EQUAL = 1e-10


@dataclass(frozen=True)
class Uncertainty:
    """Points one after the other at the Sobol candidate of largest posterior variance, given those before.

    The variance does not depend on results, so the sequence needs none. The kernel is that of one randomly initialised
    network, determined by the address of the randomness.

    Args:
        width: Neurons in a hidden layer of the network, >= 1.
        depth: Hidden layers, >= 1.
        activation: relu, tanh, erf or sine.
        normalised: Divide the kernel by sqrt(k(x, x) k(x', x')); without it the first points are the corners.
        candidates: Size of a pool, from which 64 points are taken, >= 64.

    Raises:
        ValueError: a number is out of its range.
    """

    width: int = 128
    depth: int = 2
    activation: Activation = "relu"
    normalised: bool = True
    candidates: int = 512

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("depth", 1), ("candidates", _POINTS)):
            refuse_below(name, getattr(self, name), least)

    def propose(self, space: SearchSpace, start: int, q: int, rng: np.random.Generator) -> Array:
        """Points number start ... start + q - 1, encoded, shape (q, d) (see Proposer.propose)."""
        checked_range(start, q)
        return np.array(list(islice(self._points(space, rng), start, start + q)))

    def _points(self, space: SearchSpace, rng: np.random.Generator) -> Iterator[Array]:
        seen = ModelCoordinates.of(space)
        d = space.dimension if seen is None else seen.dimension
        network = Perceptron(d, self.width, self.depth, self.activation, w_std=math.sqrt(2))
        theta = network.initial(torch_generator(rng))
        pools = sobol_points(space, rng)
        chosen = torch.empty(0, d, dtype=torch.float64)
        while True:
            pool = torch.from_numpy(take(pools, self.candidates))
            told = pool if seen is None else seen(pool)
            picked = _most_uncertain(self._rows(network, theta, told), self._rows(network, theta, chosen))
            yield from pool[picked].numpy()
            chosen = torch.cat([chosen, told[picked]])

    def _rows(self, network: Perceptron, theta: Tensor, X: Tensor) -> Passes:
        rows = network.passes(theta, X)
        return scaled(rows, diagonal(rows).clamp_min(LEAST_LENGTH).rsqrt()) if self.normalised else rows


def _most_uncertain(pool: Passes, chosen: Passes) -> list[int]:
    """Numbers of 64 points of the pool, each of the largest posterior variance given ``chosen`` and those before it."""
    covariance = gram(pool, pool)
    noise = _NOISE * float(covariance.diagonal().max())
    explained = Factor.of(gram(chosen, chosen), noise).half_solve(gram(chosen, pool))
    covariance -= explained.mT @ explained
    picked = []
    for _ in range(_POINTS):
        variance = covariance.diagonal()
        # The first of those that are equal to rounding: a normalised kernel begins with all of them.
        i = int((variance >= (1 - _EQUAL) * variance.max()).nonzero()[0])
        picked.append(i)
        column = covariance[:, i] / (variance[i] + noise).sqrt()
        covariance.addr_(column, column, alpha=-1)
    return picked
