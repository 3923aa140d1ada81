"""Predictions at designs that a search under constraints passes, outside the space."""

from collections.abc import Callable

import numpy as np

from fieldcraft.physics.space import SearchSpace


def nearest(predict: Callable[[np.ndarray], np.ndarray], space: SearchSpace, X: np.ndarray) -> np.ndarray:
    """Predictions at encoded designs X (n, d); at the nearest designs of the space where those outside have none.

    A problem need not be defined where its known constraints are violated.

    Args:
        predict: Function from encoded designs to what is predicted there.
        space: Space of the designs.
        X: The designs.

    Raises:
        ValueError: a design of the space has no prediction.
    """
    try:
        return predict(X)
    except ValueError:
        inside = space.repair(X)
        if np.array_equal(inside, X):
            raise
        return predict(inside)


def middle(space: SearchSpace) -> np.ndarray:
    """The design nearest to the middle of all bounds, encoded, shape (1, d)."""
    return space.repair(np.zeros((1, space.dimension)))
