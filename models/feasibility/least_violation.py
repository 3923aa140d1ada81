"""Point of least summed violation of smooth excesses; the sum itself is not smooth."""

from collections.abc import Callable

import numpy as np

from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array

Room = Callable[[Array], tuple[Array, Array]]
"""Minus the excesses of one point (d,), shape (k,), and their gradients, shape (k, d)."""


def least_violation(room: Room, start: Array, bounds: Array, max_iterations: int) -> Array:
    """argmin sum_k [e_k(x)]^+ near start (d,), by SLSQP on sum_k t_k under t_k >= e_k(x) and t_k >= 0; (d,).

    The least sum mostly lies where some e_k turns positive. The sum is not differentiable there, but each e_k is.

    Args:
        room: Minus the excesses e and their gradients.
        start: Shape (d,).
        bounds: Least and largest value of each coordinate, shape (d, 2).
        max_iterations: Limit on the iterations.
    """
    d, k = len(start), len(room(start)[0])
    slope, unit = np.append(np.zeros(d), np.ones(k)), np.eye(k)
    found = minimize(
        lambda v: (v[d:].sum(), slope),
        np.append(start, np.maximum(-room(start)[0], 0.0)),
        jac=True,
        method="SLSQP",
        bounds=np.vstack([bounds, np.tile([0.0, np.inf], (k, 1))]),
        constraints=[
            {
                "type": "ineq",
                "fun": lambda v: v[d:] + room(v[:d])[0],
                "jac": lambda v: np.hstack([room(v[:d])[1], unit]),
            },
        ],
        options={"maxiter": max_iterations, "ftol": 1e-12},
    )
    return np.asarray(np.clip(found.x[:d], bounds[:, 0], bounds[:, 1]))
