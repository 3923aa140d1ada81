"""Laplace's equation on a square with given edge values, by sine series (separation of variables: Fourier, 1822).

On [0, L]^2 with T = f on the edge x = 0 and 0 on the other three,

    T(x, y) = sum_n b_n sin(n pi y / L) sinh(n pi (L - x) / L) / sinh(n pi),
    b_n = (2 / L) int_0^L f(y) sin(n pi y / L) dy,

and four edges superpose. Edge values may jump at the corners. The n-th term decays like exp(-n pi d / L) at the
distance d from the edge, so a fixed number of terms is exact to rounding away from the edges and useless on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Edge = Callable[[Array], Array]

# exp(-37) is below the rounding of float64.
_DECAY = 37.0
_ORDER = 64
_BLOCK = 256


def modes_needed(length: float, distance: float) -> int:
    """Number of terms, a power of two, that leaves no more than rounding at a distance from the edges of a square."""
    return 1 << math.ceil(math.log2(_DECAY * length / (math.pi * distance)))


def sine_coefficients(edges: tuple[Edge, ...], length: float, modes: int) -> Array:
    """Coefficients b_n of functions on [0, length], shape (len(edges), modes), for n = 1 to ``modes``.

    Gauss-Legendre panels in t, where y = length (1 - cos t) / 2: a square root at an end becomes smooth. There are
    eight nodes to a term, so that functions which oscillate no faster than the last term are integrated to rounding.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
    panels = max(modes * 8 // _ORDER, 16)
    width = math.pi / panels
    t = (width * (np.arange(panels)[:, None] + (nodes + 1) / 2)).ravel()
    y = length * (1 - np.cos(t)) / 2
    measure = np.tile(weights, panels) * width / 2 * np.sin(t)
    weighted = np.stack([edge(y) for edge in edges]) * measure
    return _sine_sums(weighted, math.pi * y / length, modes)


def _sine_sums(values: Array, angles: Array, modes: int) -> Array:
    """Sums over k of values[:, k] sin(n angles[k]), shape (len(values), modes), for n = 1 to ``modes``.

    With n = q b + r, sin(n a) = sin(q b a) cos(r a) + cos(q b a) sin(r a): two products of matrices with about
    ``sqrt(modes)`` sines an angle, where a table of all of them would take ``modes`` (and gigabytes).
    """
    step = math.isqrt(modes) + 1
    fine = np.outer(angles, np.arange(1, step + 1))
    coarse = np.outer(step * np.arange(-(-modes // step)), angles)
    of_coarse, of_fine = (np.sin(coarse), np.cos(coarse)), (np.cos(fine), np.sin(fine))
    sums = [sum((row * one) @ other for one, other in zip(of_coarse, of_fine, strict=True)) for row in values]
    return np.reshape(sums, (len(values), -1))[:, :modes]


@dataclass(frozen=True)
class SquareSeries:
    """The harmonic function on [0, length]^2 with the edge values that sine coefficients describe.

    Args:
        length: Side of the square.
        coefficients: Of the edges x = 0, x = length (functions of y), y = 0, y = length (functions of x);
            shape (4, modes).
    """

    length: float
    coefficients: Array

    def __call__(self, points: Array) -> Array:
        """Values at the points (n, 2), shape (n,)."""
        blocks = [points[start : start + _BLOCK] for start in range(0, len(points), _BLOCK)]
        return np.concatenate([np.empty(0), *(self._block(*block.T[:, :, None]) for block in blocks)])

    def _block(self, x: Array, y: Array) -> Array:
        frequency = np.arange(1, self.coefficients.shape[1] + 1) * math.pi / self.length
        left, right, bottom, top = self.coefficients
        in_x = left * self._decay(frequency, x) + right * self._decay(frequency, self.length - x)
        in_y = bottom * self._decay(frequency, y) + top * self._decay(frequency, self.length - y)
        return np.asarray(np.sum(in_x * np.sin(frequency * y) + in_y * np.sin(frequency * x), axis=1))

    def _decay(self, frequency: Array, distance: Array) -> Array:
        """sinh(k (L - d)) / sinh(k L), without overflow."""
        far = np.exp(-2 * frequency * (self.length - distance))
        return np.asarray(np.exp(-frequency * distance) * (1 - far) / (1 - np.exp(-2 * frequency * self.length)))
