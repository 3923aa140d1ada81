"""Fields as an emulator's field plus the leading modes of the differences that were seen, a process a coefficient."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.calibration import Calibrated, calibrated
from fieldcraft.models.emulation.field_modes import (
    COEFFICIENTS,
    FACTORS,
    WEIGHTS,
    believed,
    coefficient_data,
    kept_left_out,
    refusal,
    split,
)
from fieldcraft.models.emulation.field_posterior import Coefficient, FieldPosterior
from fieldcraft.models.emulation.posterior import EmulatedPosterior
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.numerics.digests import refuse_other_data
from fieldcraft.models.numerics.length_scales import wide_prior
from fieldcraft.models.numerics.states import part
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import Posterior, Report
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.models.surrogates.exact_gp import ExactGP

_CALIBRATED, _ERRORS = "calibrated", "calibrated_errors"
# Fields that are put into the stated equation: those of the first trials.
_JUDGED = 10


@dataclass(frozen=True)
class EmulatedField:
    """Outputs read from a field that is the emulator's plus what the runs' own fields have taught.

    The differences between the stored fields and the nearest multiple of the emulator's are split into their leading
    modes, and a Gaussian process predicts the coefficient of each for a new design. The output is read from the field
    that results. Where a coarse grid misses much, a field tells more about it than one number does. Uncertain
    coefficients of the stated equation are fitted to the fields before (``models.emulation.calibration``). Up to three
    trials, of more than 5,000, and where a trial left no field, ``emulated_gp`` learns from the outputs alone instead.

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
        """Fit a process to each coefficient (see Surrogate.fit). ``start`` is not needed.

        A fit takes seconds up to some hundred fields, and grows with the cube of their number.

        Raises:
            ValueError: the problem has no emulator, or a process cannot be fitted.
        """
        reason = _reason(data)
        if reason is not None or data.snapshots is None:
            return _noted(reason, self._without_fields().fit(data, rng, start, report))
        known = data.snapshots.calibration
        fitted = None if known is None else calibrated(known, data.X)
        snapshots = _with(data.snapshots, fitted)
        emulated = snapshots.emulated(data.X)
        factors = _factors(snapshots.values, emulated)
        differences = snapshots.values - factors[:, None] * emulated
        weights, coefficients = split(differences, self.n_modes, snapshots.values)
        learn = self._process().under
        processes = [_exact(learn(wide_prior, each)) for each in coefficient_data(data, coefficients)]
        made = _posterior(data, snapshots, fitted, factors, differences, weights, coefficients, processes, {})
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> FieldPosterior | EmulatedPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        reason = _reason(data)
        if reason is not None or data.snapshots is None:
            return _noted(reason, self._without_fields().restore(data, state))
        refuse_other_data(data, state)
        known, fitted = data.snapshots.calibration, None
        if known is not None and _CALIBRATED in state:
            fitted = Calibrated(known.coefficients, state[_CALIBRATED].numpy(), state[_ERRORS].numpy())
        snapshots = _with(data.snapshots, fitted)
        factors = state[FACTORS].numpy()
        differences = snapshots.values - factors[:, None] * snapshots.emulated(data.X)
        weights, coefficients = state[WEIGHTS].numpy(), state[COEFFICIENTS].numpy()
        processes = [
            _exact(self._process().restore(each, part(state, f"{k}.")))
            for k, each in enumerate(coefficient_data(data, coefficients))
        ]
        arrays = factors, differences, weights, coefficients
        return _posterior(data, snapshots, fitted, *arrays, processes, kept_left_out(state))

    def _process(self) -> ExactGP:
        return ExactGP(kernel=self.kernel, restarts=0)

    def _without_fields(self) -> EmulatedGP:
        return EmulatedGP(kernel=self.kernel)


def _reason(data: Observations) -> str | None:
    """Reason why no field teaches; None if fields do."""
    if data.snapshots is None:
        return "not every trial left one from which its outputs can be read"
    if data.snapshots.predict is None:
        return "the emulator predicts none"
    return refusal(len(data))


def _exact(made: Posterior) -> ExactPosterior:
    """A process of no more trials than ``refusal`` lets pass."""
    assert isinstance(made, ExactPosterior)
    return made


def _noted(reason: str | None, posterior: EmulatedPosterior) -> EmulatedPosterior:
    """The posterior of the outputs alone, with the reason why no field taught it."""
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


def _posterior(
    data: Observations,
    snapshots: Snapshots,
    fitted: Calibrated | None,
    factors: Array,
    differences: Array,
    weights: Array,
    coefficients: Array,
    processes: Sequence[Coefficient],
    kept: Mapping[str, Array],
) -> FieldPosterior:
    """The posterior with these modes and processes, the calibrated coefficients, and what is left of the equation."""
    learnt = {**kept, **({} if fitted is None else {_CALIBRATED: fitted.values, _ERRORS: fitted.errors})}
    made = believed(data, snapshots, factors, differences, weights, coefficients, processes, learnt)
    return replace(made, calibrated=fitted, residuals=_residuals(snapshots, data.X, fitted))


def _residuals(snapshots: Snapshots, X: Array, fitted: Calibrated | None) -> tuple[float, ...]:
    """Median shares that the fields leave of the equation, by the stated coefficients and, if others fit, by those."""
    if snapshots.residuals is None:
        return ()
    some = snapshots.values[:_JUDGED], X[:_JUDGED]
    used: list[Array | None] = [None]
    if fitted is not None and not fitted.stand:
        used.append(fitted.values)
    return tuple(float(np.median(snapshots.residuals(*some, values))) for values in used)
