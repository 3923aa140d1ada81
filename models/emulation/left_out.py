"""Outputs of trials predicted from the fields of the others, and the doubt that their errors ask for.

A field left out takes its mode with it: the others have modes V' of their own, and coefficients in them of every field.
The processes keep their hyper-parameters, and foretell each coefficient from the others in closed form (their
``left_out``). All of it needs the Gram matrix of the fields alone: modes and means are weighted sums of the fields.

Of an error e_i with the variance v_i by the coefficients it is believed that e_i ~ N(shift, v_i + r), with r for what
no mode represents; where the other runs know a part of that (``models.emulation.remainder``), e_i ~ N(m_i, v_i + c_i r)
with the mean m_i and the share c_i that they leave. The prior of r is wide, log r ~ N(2 log 0.03, 3^2) in squared
targets; what is believed of a new design has its mean given the errors, and few errors leave much room.

The density by which a surrogate is chosen is not normal: the result is a quadratic function of the coefficients
(``models.selection.quadratics``), whose tail is long where it bends. It lets the processes be too sure by a factor,
too: the coefficients have a times their variance, log a ~ N(0, 1.4^2). Without both, one result that is far out makes r
as large as its own error, and tells against what is predicted of all others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.emulation.field_posterior import Coefficient, densities, through
from fieldcraft.models.emulation.remainder import Remainder
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.selection.predictive_score import MOST
from fieldcraft.models.selection.quadratics import Quadratics
from fieldcraft.models.snapshots import Snapshots

# Parts of the trials, each of which is put into the modes of the others; of so few trials each is one.
_PARTS = 64
# Numbers of the fields of many designs that are alive at once.
_BLOCK = 500_000
# Least size of a mode, as a share of the first one's, and of its square that is no rounding of the whole matrix.
_SMALLEST, _ROUNDING = 1e-3, 1e-13
# Prior standard deviations of log a and log r, the size at which r is expected, and where both are looked for.
_SURE, _WIDE, _SIZE = 1.4, 3.0, 0.03
_FACTORS, _RESTS = np.linspace(-6.0, 6.0, 25), 2 * np.linspace(np.log(1e-4), np.log(2.0), 40)


@dataclass(frozen=True, eq=False)
class Doubt:
    """Errors that predictions have beyond what their variances say, all in targets.

    Args:
        shift: Mean error.
        rest: Variance of an error beside what is stated.
        densities: log density of each target given the others, shape (n,).
    """

    shift: float
    rest: float
    densities: Tensor

    @classmethod
    def of(
        cls, targets: Array, foreseen: Quadratics, noise: float = 0.0, remainder: Remainder | None = None
    ) -> "Doubt":
        """The doubt that targets (n,) ask for, each left out.

        Args:
            targets: The results.
            foreseen: What the modes of the others tell of each.
            noise: Variance of a result.
            remainder: What is known of the errors at the runs; None where nothing is.
        """
        shift = float(np.median(targets - foreseen.mean))
        near, shares = (0.0, np.ones(len(targets))) if remainder is None else remainder.left_out(shift)
        rests = np.exp(_RESTS)[:, None] * shares + noise
        size = torch.from_numpy(-0.5 * ((_RESTS - 2 * np.log(_SIZE)) / _WIDE) ** 2)
        normal = densities(targets - foreseen.mean - shift - near, foreseen.variance + rests)
        sure = torch.softmax(size + normal.sum(1), dim=0).numpy()
        found = foreseen.log_densities(targets - shift - near, np.exp(_FACTORS), rests)
        told = torch.from_numpy(np.minimum(found, MOST))
        joint = torch.from_numpy(-0.5 * ((_FACTORS / _SURE) ** 2)[:, None]) + size + told.sum(2)
        others = torch.log_softmax((joint[..., None] - told).reshape(-1, len(targets)), dim=0)
        likely = torch.logsumexp(others + told.reshape(-1, len(targets)), dim=0)
        return cls(shift, float(sure @ np.exp(_RESTS)), likely)


def left_out(
    data: Observations,
    snapshots: Snapshots,
    factors: Array,
    differences: Array,
    gram: Array,
    processes: Sequence[Coefficient],
) -> Quadratics:
    """Each output by the fields of the other trials, in targets.

    More than 64 trials are put into the modes of the others in so many parts.

    Args:
        data: The observations.
        snapshots: How the output is read, and the emulator's fields.
        factors: What the emulator's fields are multiplied by, shape (fields,).
        differences: What is left of the fields, shape (n, fields, cells).
        gram: Gram matrix (n, n) of these less their mean, each kind in units of its own.
        processes: Posterior of the coefficient of each mode; the others have no more modes.
    """
    n = len(data)
    foretold = [each.left_out for each in processes]
    parts = [np.arange(first, n, min(n, _PARTS)) for first in range(min(n, _PARTS))]
    middles, turns = np.empty(n), np.empty((2, n, len(processes)))
    for some in _together(parts, max(1, _BLOCK // differences[0].size)):
        held = np.concatenate(some)
        found = [_without(gram, part, foretold) for part in some]
        middle = np.concatenate([mean for mean, _ in found])
        moves = np.concatenate([spread for _, spread in found], axis=1)
        at = data.X[held]
        fields = factors[:, None] * snapshots.emulated(at) + np.tensordot(middle, differences, 1)

        def move(few: slice, room: Array, moves: Array = moves) -> None:
            room[:] = np.tensordot(moves[few], differences, 1)

        told = through(snapshots, at, fields, len(moves), move)
        middles[held], turns[0, held], turns[1, held] = told.middle, told.slopes, told.bends
    return Quadratics(middles, *turns).scaled(data.scaling.mean, data.scaling.sign * data.scaling.sd)


def leading(gram: Array, most: int, of: Array | None = None) -> tuple[Array, Array]:
    """The leading K of the eigenvectors of a Gram matrix (n, n), shape (n, K), and the modes' singular values (K,).

    A mode below a thousandth of the first one's size is rounding or noise of the meshes.

    Args:
        gram: The matrix.
        most: Most modes that are kept.
        of: Gram matrix from which it was taken: fields that hardly differ beside those leave it rounding alone.
    """
    squares, vectors = np.linalg.eigh(gram)
    sizes = np.sqrt(np.maximum(squares[::-1], 0))
    least = 0.0 if of is None else np.sqrt(_ROUNDING * of.diagonal().max())
    kept = min(most, len(gram) - 1, int(np.count_nonzero(sizes > max(_SMALLEST * sizes[0], least))))
    return vectors[:, ::-1][:, :kept], sizes[:kept]


def _without(gram: Array, part: NDArray[np.intp], foretold: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Weights of the fields in the mean fields of a part (p, n), and in the spread along each mode (K, p, n)."""
    n, k = len(gram), len(foretold)
    others = np.setdiff1d(np.arange(n), part)
    inner = gram[np.ix_(others, others)]
    middle = inner.mean(axis=0)
    vectors, sizes = leading(inner - middle - middle[:, None] + middle.mean(), k, gram)
    means, spreads = np.zeros((len(part), n)), np.zeros((k, len(part), n))
    means[:, others] = 1 / len(others)
    for mode, (vector, size) in enumerate(zip(vectors.T, sizes, strict=True)):
        shares, (errors, variances) = vector / size, foretold[mode]
        coefficients = (gram[:, others] - middle) @ shares
        predicted = coefficients[part] - errors[part] @ coefficients
        sd = np.std(coefficients[others], ddof=1) * np.sqrt(variances[part])
        means[:, others] += predicted[:, None] * shares
        spreads[mode][:, others] = sd[:, None] * shares
    return means, spreads


def _together(parts: Sequence[NDArray[np.intp]], most: int) -> Iterator[list[NDArray[np.intp]]]:
    """Parts in groups of about so many trials."""
    some: list[NDArray[np.intp]] = []
    for part in parts:
        some.append(part)
        if sum(map(len, some)) >= most:
            yield some
            some = []
    if some:
        yield some
