"""Fields as an emulator's field plus the leading modes of the differences that were seen, a process a coefficient."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.calibration import Calibrated, calibrated
from fieldcraft.models.emulation.field_posterior import Basis, FieldPosterior, densities, in_targets
from fieldcraft.models.emulation.posterior import EmulatedPosterior
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.states import named, part
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import Posterior, Report, no_report
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.exact_gp import ExactGP

_FACTORS, _WEIGHTS, _COEFFICIENTS = "factors", "weights", "coefficients"
_CALIBRATED, _ERRORS = "calibrated", "calibrated_errors"
# Trials below which two modes at most say too little of how fields differ.
_LEAST = 4
# A mode below this share of the first one's size is rounding or noise of the meshes.
_SMALLEST = 1e-3
# Fields that are put into the stated equation: those of the first trials.
_JUDGED = 10
# Prior of what no mode represents: as if so many errors of this size, in targets, had been seen.
_PRIOR_COUNT, _PRIOR_SIZE = 2.0, 0.05


@dataclass(frozen=True)
class EmulatedField:
    """Outputs read from a field that is the emulator's plus what the runs' own fields have taught.

    The differences between the stored fields and the nearest multiple of the emulator's are split into their leading
    modes, and a Gaussian process predicts the coefficient of each for a new design. The output is read from the field
    that results. Where a coarse grid misses much, a field tells more about it than one number does. Uncertain
    coefficients of the stated equation are fitted to the fields before (``models.emulation.calibration``). Up to three
    trials, and where a trial left no field, ``emulated_gp`` learns from the outputs alone instead.

    Args:
        kernel: Covariance of the coefficients, "matern52", "matern32", "matern12" or "rbf".
        n_modes: Most modes that are kept, at least 1.

    Raises:
        ValueError: n_modes < 1.
    """

    uses_physics: ClassVar[bool] = False
    uses_emulator: ClassVar[bool] = True
    uses_fields: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EMULATOR})

    kernel: Kernel = "matern52"
    n_modes: int = 10

    def __post_init__(self) -> None:
        refuse_below("n_modes", self.n_modes, 1)
        self._process()

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> FieldPosterior | EmulatedPosterior:
        """Fit a process to each coefficient (see Surrogate.fit). A fit takes seconds at most: ``start`` is not needed.

        Raises:
            ValueError: the problem has no emulator, or a process cannot be fitted.
        """
        if data.snapshots is None or len(data) < _LEAST:
            return _noted(data, self._without_fields().fit(data, rng, start, report))
        known = data.snapshots.calibration
        fitted = None if known is None else calibrated(known, data.X)
        snapshots = _with(data.snapshots, fitted)
        emulated = snapshots.predict(data.X)
        factors = _factors(snapshots.values, emulated)
        differences = snapshots.values - factors[:, None] * emulated
        weights, coefficients = _split(differences, self.n_modes)
        processes = [self._process().fit(each, rng, None, no_report) for each in _coefficient_data(data, coefficients)]
        made = _posterior(data, snapshots, fitted, factors, differences, weights, coefficients, processes)
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> FieldPosterior | EmulatedPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        if data.snapshots is None or len(data) < _LEAST:
            return _noted(data, self._without_fields().restore(data, state))
        refuse_other_data(data, state)
        known, fitted = data.snapshots.calibration, None
        if known is not None and _CALIBRATED in state:
            fitted = Calibrated(known.coefficients, state[_CALIBRATED].numpy(), state[_ERRORS].numpy())
        snapshots = _with(data.snapshots, fitted)
        factors = state[_FACTORS].numpy()
        differences = snapshots.values - factors[:, None] * snapshots.predict(data.X)
        weights, coefficients = state[_WEIGHTS].numpy(), state[_COEFFICIENTS].numpy()
        processes = [
            self._process().restore(each, part(state, f"{k}."))
            for k, each in enumerate(_coefficient_data(data, coefficients))
        ]
        return _posterior(data, snapshots, fitted, factors, differences, weights, coefficients, processes)

    def _process(self) -> ExactGP:
        return ExactGP(kernel=self.kernel, restarts=0)

    def _without_fields(self) -> EmulatedGP:
        return EmulatedGP(kernel=self.kernel)


def _noted(data: Observations, posterior: EmulatedPosterior) -> EmulatedPosterior:
    """The posterior of the outputs alone, with the reason why no field taught it."""
    reason = f"there are {len(data)} trials, and {_LEAST} teach how they differ"
    if data.snapshots is None:
        reason = "not every trial left one from which its outputs can be read"
    return replace(posterior, notes={**posterior.notes, "fields": f"not used: {reason}"})


def _with(snapshots: Snapshots, fitted: Calibrated | None) -> Snapshots:
    """The same, with the emulator of the calibrated coefficients if there are any."""
    if fitted is None or snapshots.calibration is None:
        return snapshots
    return replace(snapshots, predict=snapshots.calibration.predict(fitted.values))


def _factors(values: Array, emulated: Array) -> Array:
    """Multiple of the emulated fields (n, fields, cells) nearest to the values, each less its mean; shape (fields,)."""
    told, known = (each - each.mean(axis=0) for each in (values, emulated))
    squares = (known**2).sum(axis=(0, 2))
    products = (known * told).sum(axis=(0, 2))
    return np.asarray(np.divide(products, squares, out=np.ones_like(squares), where=squares > 0))


def _split(differences: Array, most: int) -> tuple[Array, Array]:
    """Weights (n, K) of the differences (n, fields, cells) in K modes, and the coefficients (n, K) that give them back.

    Each field counts in units of its own differences. Of the Gram matrix G = W S^2 W^T of the differences from their
    mean, the modes are V_k = W_k^T D / S_k and the coefficients W_k S_k.
    """
    n = len(differences)
    centred = differences - differences.mean(axis=0)
    sizes = np.sqrt((centred**2).mean(axis=(0, 2)))
    told = centred[:, sizes > 0] / sizes[sizes > 0, None]
    rows = told.reshape(n, -1)
    squares, vectors = np.linalg.eigh(rows @ rows.T)
    values = np.sqrt(np.maximum(squares[::-1], 0))
    kept = min(most, n - 1, int(np.count_nonzero(values > _SMALLEST * values[0])))
    leading = vectors[:, ::-1][:, :kept]
    return leading / values[:kept], leading * values[:kept]


def _coefficient_data(data: Observations, coefficients: Array) -> list[Observations]:
    """Observations of each coefficient (n, K) as a function of the design."""
    return [
        Observations(
            data.X, each, maximize=False, exact=data.exact, images=data.images, columns=data.columns, space=data.space
        )
        for each in coefficients.T
    ]


def _posterior(
    data: Observations,
    snapshots: Snapshots,
    fitted: Calibrated | None,
    factors: Array,
    differences: Array,
    weights: Array,
    coefficients: Array,
    processes: Sequence[Posterior],
) -> FieldPosterior:
    """The posterior with these modes and processes, its shift and rest from the results left out one by one."""
    exact = tuple(each for each in processes if isinstance(each, ExactPosterior))
    offset = differences.mean(axis=0)
    basis = Basis(factors, offset, np.tensordot(weights.T, differences - offset, 1), exact)
    mean, variance = in_targets(snapshots, basis, data.scaling, data.X, basis.left_out(len(data)))
    error = data.targets - mean
    shift = float(np.median(error))
    known = variance + (data.noise_variance or 0.0)
    excess = np.maximum((error - shift) ** 2 - known, 0).sum()
    rest = (_PRIOR_COUNT * _PRIOR_SIZE**2 + float(excess)) / (_PRIOR_COUNT + len(data))
    learnt = {_FACTORS: factors, _WEIGHTS: weights, _COEFFICIENTS: coefficients}
    if fitted is not None:
        learnt |= {_CALIBRATED: fitted.values, _ERRORS: fitted.errors}
    state = stamped(data) | {name: torch.tensor(values) for name, values in learnt.items()}
    for k, each in enumerate(exact):
        state |= named(f"{k}.", each.state())
    missed = float(np.sqrt(np.mean(error**2)))
    likely = densities(error - shift, known + rest)
    told = _residuals(snapshots, data.X, fitted)
    return FieldPosterior(snapshots, basis, data.scaling, shift, rest, likely, missed, state, fitted, told)


def _residuals(snapshots: Snapshots, X: Array, fitted: Calibrated | None) -> tuple[float, ...]:
    """Median shares that the fields leave of the equation, by the stated coefficients and, if others fit, by those."""
    if snapshots.residuals is None:
        return ()
    some = snapshots.values[:_JUDGED], X[:_JUDGED]
    used: list[Array | None] = [None]
    if fitted is not None and not fitted.stand:
        used.append(fitted.values)
    return tuple(float(np.median(snapshots.residuals(*some, values))) for values in used)
