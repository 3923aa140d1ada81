"""Fields on a rectangle with an insulated rim, by cosine series (separation of variables: Fourier, 1822).

On [0, L_x] x [0, L_y] the functions cos(m pi x / L_x) cos(n pi y / L_y) have no slope across the rim and are the
eigenfunctions of the Laplacian, with the eigenvalues -(m pi / L_x)^2 - (n pi / L_y)^2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# How far a summit may lie from the highest sample beside it, in samples.
_REACH = 2


def frequencies(length: float, modes: int) -> Array:
    """m pi / length for m = 0 to ``modes`` - 1, shape (modes,), in radians over the unit of ``length``."""
    return np.asarray(np.arange(modes) * np.pi / length, dtype=np.float64)


def cosine_coefficients(f: Callable[[Array], Array], length: float, modes: int) -> Array:
    """a_m with f(x) = sum_m a_m cos(m pi x / length) on [0, length], shape (modes,), for a smooth f.

    Gauss-Legendre quadrature with four nodes to a term.
    """
    nodes, table = _quadrature(length, modes)
    return np.asarray(table @ f(nodes))


@lru_cache(maxsize=8)
def _quadrature(length: float, modes: int) -> tuple[Array, Array]:
    """Nodes (4 modes,), and the weights (modes, 4 modes) that turn values there into coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(4 * modes)
    nodes, weights = length * (nodes + 1) / 2, length * weights / 2
    norm = np.where(np.arange(modes) == 0, 1, 2) / length
    return nodes, norm[:, None] * np.cos(np.outer(frequencies(length, modes), nodes)) * weights


@dataclass(frozen=True, eq=False)
class CosineSeries:
    """f(x, y) = sum_mn c_mn cos(m pi x / L_x) cos(n pi y / L_y).

    Args:
        sides: L_x and L_y.
        coefficients: c_mn, shape (modes along x, modes along y).
    """

    sides: tuple[float, float]
    coefficients: Array

    def on(self, x: Array, y: Array) -> Array:
        """Values on the grid of x (n,) and y (m,), shape (n, m)."""
        along_x, along_y = self._frequencies
        return np.asarray(np.cos(np.outer(x, along_x)) @ self.coefficients @ np.cos(np.outer(along_y, y)))

    def at(self, place: Array) -> tuple[float, Array]:
        """Value and gradient (2,) at one place (2,)."""
        along_x, along_y = self._frequencies
        x, y = along_x * place[0], along_y * place[1]
        rows, columns = np.cos(x) @ self.coefficients, self.coefficients @ np.cos(y)
        gradient = -np.array([np.sin(x) * along_x @ columns, rows @ (np.sin(y) * along_y)])
        return float(rows @ np.cos(y)), gradient

    def maximum(self) -> float:
        """The largest value on the rectangle: the summits of a sample for each mode, each climbed by L-BFGS-B."""
        from scipy.ndimage import maximum_filter

        x, y = (np.linspace(0, side, n + 1) for side, n in zip(self.sides, self.coefficients.shape, strict=True))
        sampled = self.on(x, y)
        summits = np.argwhere(sampled == maximum_filter(sampled, size=3, mode="nearest"))
        reach = _REACH * np.array([x[1], y[1]])
        return max(self._climbed(np.array([x[i], y[j]]), reach) for i, j in summits)

    @property
    def _frequencies(self) -> tuple[Array, Array]:
        x, y = (frequencies(side, n) for side, n in zip(self.sides, self.coefficients.shape, strict=True))
        return x, y

    def _climbed(self, start: Array, reach: Array) -> float:
        """The largest value no further than ``reach`` (2,) from the start along either axis."""
        from scipy.optimize import minimize

        base, _ = self.at(start)

        def depth(place: Array) -> tuple[float, Array]:
            value, gradient = self.at(place)
            # Of the order of the climb alone, so that no digits are lost to the height of the field.
            return base - value, -gradient

        bounds = np.clip([start - reach, start + reach], 0, self.sides).T
        found = minimize(
            depth, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9}
        )
        return base - float(found.fun)
