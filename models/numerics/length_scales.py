"""Length scales before any data: all priors of them, log l ~ N(mean, sd^2).

Distances between points of a box grow as the root of its dimension d. The means grow likewise: with fixed length scales
all points in ten or more dimensions would be uncorrelated.
"""

import math

UNIT_MEAN, STATIONARY_SD = math.sqrt(2.0), math.sqrt(3.0)
"""Of a stationary kernel over [0, 1], one coordinate; in d, log(d) / 2 is added (Hvarfner et al., 2024; BoTorch's)."""
ENCODED_MEAN = UNIT_MEAN + math.log(2.0)
"""The same over encoded coordinates, [-1, 1]."""
TANGENT_SD = 0.5
"""Of a tangent kernel."""
EQUATION = (0.0, 0.5)
"""Mean and sd where an equation is imposed, over [-1, 1]: half the box's width, which few results move far."""

_TANGENT = {"sine": 0.41, "erf": 0.41, "tanh": 0.41, "relu": 0.5}
# As many times that for functions nearly linear in most coordinates, as engineers' constraints are, which a dozen
# trials then foretell; results of rugged ones make the shorter scale the more probable.
_SMOOTH = 3.0


def unit_mean(d: int) -> float:
    """Mean of log l for a stationary kernel over [0, 1]^d."""
    return UNIT_MEAN + 0.5 * math.log(d)


def encoded_mean(d: int) -> float:
    """Mean of log l for a stationary kernel over [-1, 1]^d."""
    return ENCODED_MEAN + 0.5 * math.log(d)


def tangent_centres(d: int, activation: str) -> tuple[float, float]:
    """Medians of l for the tangent kernel of a dense network over [-1, 1]^d, of two competing priors."""
    centre = tangent_centre(activation) * math.sqrt(d)
    return centre, _SMOOTH * centre


def tangent_centre(activation: str) -> float:
    """Median of l for the tangent kernel of a network of one coordinate, or of one with patches of few pixels."""
    return _TANGENT[activation]
