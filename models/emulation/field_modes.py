"""Leading modes of fields (proper orthogonal decomposition by snapshots: Sirovich, 1987) and a posterior through them.

Of the Gram matrix G = W S^2 W^T of the n fields' differences D from their mean, the modes are V_k = W_k^T D / S_k and
the coefficients of the fields W_k S_k. Each kind of field counts in units of its own differences, and one that differs
by no more than rounding does not count.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.emulation.field_posterior import Basis, Coefficient, FieldPosterior, followed, in_targets
from fieldcraft.models.emulation.left_out import Doubt, leading, left_out
from fieldcraft.models.emulation.remainder import Remainder, told_at_runs
from fieldcraft.models.numerics.digests import stamped
from fieldcraft.models.numerics.states import named
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.selection.quadratics import Quadratics
from fieldcraft.models.snapshots import Snapshots

FACTORS, WEIGHTS, COEFFICIENTS, LEFT_OUT = "factors", "weights", "coefficients", "foreseen"
"""Names of what was learnt, in a state."""
LEAST = 4
"""Trials below which two modes at most say too little of how fields differ."""
# Trials that a process a mode can hold.
_MOST = 5000
# Spread of a kind of field, as a share of its largest value, that is rounding.
_ROUNDING = 1e-12


def split(fields: Array, most: int, of: Array | None = None) -> tuple[Array, Array]:
    """Weights (n, K) of fields (n, fields, cells) in K modes, and the coefficients (n, K) that give them back.

    Args:
        fields: The fields, or what is left of others.
        most: Most modes that are kept.
        of: The others, of the same shape; None for the fields themselves.
    """
    rows = _rows(fields, of)
    vectors, sizes = leading(rows @ rows.T, most)
    return vectors / sizes, vectors * sizes


def projected(fields: Array, most: int) -> Array:
    """Each of the fields (n, fields, cells) in the modes of the others: what these can represent of it, same shape.

    With the Gram matrix of all, that of the others needs no field again: each projection is a weighted sum of them.
    """
    rows, n = _rows(fields), len(fields)
    gram, shares = rows @ rows.T, np.zeros((n, n))
    for i in range(n):
        others = np.delete(np.arange(n), i)
        inner = gram[np.ix_(others, others)]
        middle = inner.mean(axis=0)
        vectors, sizes = leading(inner - middle - middle[:, None] + middle.mean(), most, gram)
        # Modes are at right angles to the mean of the others, so that it takes no part in the products.
        along = vectors.T @ (gram[others, i] - middle) / sizes
        shares[i, others] = 1 / len(others) + vectors @ (along / sizes)
    return np.tensordot(shares, fields, 1)


def coefficient_data(data: Observations, coefficients: Array) -> list[Observations]:
    """Observations of each coefficient (n, K) as a function of the design."""
    return [
        Observations(
            data.X, each, maximize=False, exact=data.exact, images=data.images, columns=data.columns, space=data.space
        )
        for each in coefficients.T
    ]


def refusal(n: int) -> str | None:
    """Reason why fields of so many trials do not teach; None if they may."""
    if n < LEAST:
        return f"there are {n} trials, and {LEAST} teach how they differ"
    return f"there are {n} trials, and fields of at most {_MOST} are learnt from" if n > _MOST else None


def kept_left_out(state: Mapping[str, Tensor]) -> dict[str, Array]:
    """Predictions of the results left out, of a state that has them; older ones have none."""
    return {LEFT_OUT: state[LEFT_OUT].numpy()} if LEFT_OUT in state else {}


def believed(
    data: Observations,
    snapshots: Snapshots,
    factors: Array,
    differences: Array,
    weights: Array,
    coefficients: Array,
    processes: Sequence[Coefficient],
    learnt: Mapping[str, Array],
) -> FieldPosterior:
    """The posterior with these modes and processes, doubted as the results left out one by one ask for.

    Args:
        data: The observations.
        snapshots: Fields that were seen, the emulator's, and how the output is read.
        factors: What the emulator's fields are multiplied by, shape (fields,).
        differences: What is left of the fields, shape (n, fields, cells).
        weights: Weights of these in the modes, shape (n, K).
        coefficients: Their coefficients, shape (n, K).
        processes: Posterior of each coefficient, K.
        learnt: What else belongs into its state; what was foreseen of the results left out, where it has that.
    """
    offset = differences.mean(axis=0)
    basis = Basis(factors, offset, np.tensordot(weights.T, differences - offset, 1), tuple(processes))
    if LEFT_OUT in learnt:
        foreseen = _unpacked(learnt[LEFT_OUT])
    else:
        rows = _rows(differences, snapshots.values)
        foreseen = left_out(data, snapshots, factors, differences, rows @ rows.T, processes)
    known = _remainder(data, snapshots, basis)
    doubt = Doubt.of(data.targets, foreseen, data.noise_variance or 0.0, known)
    kept = {FACTORS: factors, WEIGHTS: weights, COEFFICIENTS: coefficients, **learnt}
    kept[LEFT_OUT] = np.column_stack([foreseen.middle, foreseen.slopes, foreseen.bends])
    state = stamped(data) | {name: torch.tensor(values) for name, values in kept.items()}
    for k, each in enumerate(processes):
        state |= named(f"{k}.", each.state())
    missed = float(np.sqrt(np.mean((data.targets - foreseen.mean) ** 2)))
    told = doubt.shift, doubt.rest, doubt.densities, missed, state, known
    return FieldPosterior(snapshots, basis, data.scaling, *told, exact=told_at_runs(data))


def _remainder(data: Observations, snapshots: Snapshots, basis: Basis) -> Remainder | None:
    """Remainder of the results beside the modes; None where these may be noisy, or there is no emulator.

    The modes of whole fields are used where they represent nearly everything. The results left out then tell how much
    the first few fields missed, and not what is missed now: a process of that size held a search on the spill model
    back (1e-4 to 2e-2 after 30 runs, against 4e-6 to 9e-5 with the same doubt everywhere).
    """
    if snapshots.predict is None or not told_at_runs(data):
        return None
    X = data.X.copy()
    mean, _ = in_targets(data.scaling, *followed(snapshots, basis, X, *basis.coefficients(X)))
    return Remainder(torch.from_numpy(X), data.targets - mean)


def _unpacked(told: Array) -> Quadratics:
    slopes, bends = np.split(told[:, 1:], 2, axis=1)
    return Quadratics(told[:, 0], slopes, bends)


def varying(fields: Array, of: Array | None = None) -> NDArray[np.bool_]:
    """True for each kind of fields (n, fields, cells) that differs by more than rounding (see ``split``)."""
    return _sizes(fields - fields.mean(axis=0), fields if of is None else of)[1]


def _rows(fields: Array, of: Array | None = None) -> Array:
    """Fields (n, fields, cells) less their mean, each kind in units of its own differences, one row a trial."""
    centred = fields - fields.mean(axis=0)
    sizes, counts = _sizes(centred, fields if of is None else of)
    return np.asarray((centred[:, counts] / sizes[counts, None]).reshape(len(fields), -1))


def _sizes(centred: Array, of: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Root mean square of each kind of fields less their mean, and whether it is more than rounding; (fields,)."""
    sizes = np.sqrt((centred**2).mean(axis=(0, 2)))
    largest = np.maximum(of.max(axis=(0, 2)), -of.min(axis=(0, 2)))
    return sizes, sizes > _ROUNDING * largest
