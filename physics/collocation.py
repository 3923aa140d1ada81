"""Collocation points, at which an equation is imposed."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.domain import Domain

Scheme = Literal["uniform", "latin_hypercube", "sobol"]


def collocate(domain: Domain, n: int, scheme: Scheme, rng: np.random.Generator) -> NDArray[np.float64]:
    """Points in a domain, shape (n, d), in physical units.

    Args:
        domain: The box of d axes.
        n: Number of points, at least 1. Sobol points are balanced only when n is a power of two.
        scheme: ``uniform``: independent points. ``latin_hypercube``: one point in each of n equal slices of every
            axis (McKay, Beckman and Conover, 1979). ``sobol``: the first n of a scrambled Sobol sequence (Owen, 1998).
        rng: The only source of randomness.

    Raises:
        ValueError: n below 1, or an unknown scheme.
    """
    if n < 1:
        raise ValueError(f"{n} collocation points are asked for: ask for at least 1.")
    d = len(domain.axes)
    if scheme == "uniform":
        cube = rng.random((n, d))
    elif scheme == "latin_hypercube":
        slices = np.stack([rng.permutation(n) for _ in range(d)], axis=1)
        cube = (slices + rng.random((n, d))) / n
    elif scheme == "sobol":
        cube = _sobol(n, d, rng)
    else:
        raise ValueError(f"No collocation scheme {scheme!r}: choose uniform, latin_hypercube or sobol.")
    low, high = domain.bounds
    return np.asarray(np.clip(low + cube * (high - low), low, high))


def _sobol(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    from scipy.stats import qmc

    engine = qmc.Sobol(d, scramble=True, rng=rng)
    # Drawn by the next power of two and cut: the first n are the same, and scipy does not warn of lost balance.
    points: NDArray[np.float64] = engine.random_base2((n - 1).bit_length())
    return points[:n]
