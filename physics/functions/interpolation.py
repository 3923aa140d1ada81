"""Values of a field between its nodes."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def lagrange(name: str, nodes: Array, at: float, unit: str = "") -> tuple[slice, Array]:
    """The four nodes around a place, and the weights of the cubic through them there (Lagrange).

    Args:
        name: Of the coordinate, for the error.
        nodes: Its values, at least four, increasing.
        at: The place.
        unit: Of both, for the error.

    Raises:
        ValueError: a place beyond the outermost nodes.
    """
    if not nodes[0] <= at <= nodes[-1]:
        ending = f" {unit}" if unit else ""
        raise ValueError(
            f"{name} = {at:g}{ending} lies outside the field's nodes, {nodes[0]:g} to {nodes[-1]:g}{ending}: simulate "
            "on more cells or keep a wider margin."
        )
    first = int(np.clip(np.searchsorted(nodes, at) - 2, 0, len(nodes) - 4))
    near = nodes[first : first + 4]
    weights = [np.prod([(at - b) / (a - b) for b in near if b != a]) for a in near]
    return slice(first, first + 4), np.array(weights)
