"""Fields as their mean plus the leading modes of those that were seen, a process a coefficient; no physics."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.field_modes import (
    COEFFICIENTS,
    FACTORS,
    WEIGHTS,
    believed,
    coefficient_data,
    kept_left_out,
    projected,
    refusal,
    split,
)
from fieldcraft.models.emulation.field_posterior import Coefficient, FieldPosterior
from fieldcraft.models.gaussian.inducing import InducedPosterior
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.gradients.posterior import GradientPosterior
from fieldcraft.models.numerics.checks import refuse_below
from fieldcraft.models.numerics.digests import refuse_other_data
from fieldcraft.models.numerics.milestones import thinned
from fieldcraft.models.numerics.states import part
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.snapshots import Snapshots
from fieldcraft.models.surrogate import Report
from fieldcraft.models.surrogates.exact_gp import ExactGP
from fieldcraft.models.trend.of_degree import about_polynomial, restored
from fieldcraft.models.trend.process import TRENDED

OfOutputs = ExactPosterior | InducedPosterior | GradientPosterior

_PROJECTED = "projected"
# Fields that are put into the modes of the others, evenly spaced among the trials.
_JUDGED = 100
# Share of these whose outputs have to be given back, and the error in targets that they may have. One pattern that no
# other run shows tells nothing against what the rest teach.
_SHARE, _MOST = 0.75, 0.1


@dataclass(frozen=True)
class FieldPod:
    """Outputs read from fields that are predicted from the fields of earlier runs, where no equation of them is stated.

    The stored fields are split into their mean and their leading modes, and a Gaussian process about a linear function
    of the design predicts the coefficient of each. The output is read from the field that results. It tells more than a
    process of the output does where a few modes hold the fields and the output bends, such as the squared distance to a
    wanted field.

    Before, each field is put into the modes of the others. Where the outputs of more than a quarter of them then err by
    over a tenth of the output's standard deviation, as where a narrow source moves about, ``exact_gp`` learns from the
    outputs alone, and a remark says why; so it does up to three trials, of more than 5,000, and where a trial left no
    field.

    Args:
        n_modes: Most modes that are kept, at least 1.
        stand_in: Let ``exact_gp`` stand in where fields do not teach; else the fit is refused, as a candidate's is.

    Raises:
        ValueError: n_modes < 1.
    """

    uses_physics: ClassVar[bool] = False
    uses_fields: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.FIELDS})

    n_modes: int = 10
    stand_in: bool = True

    def __post_init__(self) -> None:
        refuse_below("n_modes", self.n_modes, 1)

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> FieldPosterior | OfOutputs:
        """Fit a process to each coefficient (see Surrogate.fit). ``start`` is not needed.

        A fit takes 0.5 CPU s of 100 fields, 2 of 400 and 18 of 1,000: their modes without each 64th of them.

        Raises:
            ValueError: a process cannot be fitted, or fields do not teach and nothing stands in.
        """
        snapshots, error, reason = self._judged(data)
        if snapshots is None or reason is not None:
            if not self.stand_in:
                raise ValueError(f"The fields are not used: {reason}.")
            return _noted(reason, ExactGP().fit(data, rng, start, report))
        weights, coefficients = split(snapshots.values, self.n_modes)
        processes = [about_polynomial(each, 1) for each in coefficient_data(data, coefficients)]
        learnt = {_PROJECTED: np.array(error)}
        factors = np.zeros(snapshots.values.shape[1])
        made = believed(data, snapshots, factors, snapshots.values, weights, coefficients, processes, learnt)
        made = replace(made, projected=error)
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> FieldPosterior | OfOutputs:
        """The posterior whose state this was (see Surrogate.restore)."""
        if _PROJECTED not in state or data.snapshots is None:
            reason = self._judged(data)[2] or "by the rule of an earlier version"
            return _noted(reason, ExactGP().restore(data, state))
        refuse_other_data(data, state)
        snapshots = _alone(data.snapshots)
        learnt = {name: state[name].numpy() for name in (FACTORS, WEIGHTS, COEFFICIENTS)}
        processes = [
            _restored(each, part(state, f"{k}.")) for k, each in enumerate(coefficient_data(data, learnt[COEFFICIENTS]))
        ]
        error = float(state[_PROJECTED])
        arrays = learnt[FACTORS], snapshots.values, learnt[WEIGHTS], learnt[COEFFICIENTS]
        made = believed(data, snapshots, *arrays, processes, {_PROJECTED: np.array(error), **kept_left_out(state)})
        return replace(made, projected=error)

    def _judged(self, data: Observations) -> tuple[Snapshots | None, float, str | None]:
        """The fields without an emulator, their error in the modes of the others, and why they do not teach if so."""
        if data.snapshots is None:
            return None, np.nan, "not every trial left one from which its outputs can be read"
        snapshots = _alone(data.snapshots)
        if (reason := refusal(len(data))) is not None:
            return snapshots, np.nan, reason
        error = left_out_error(data, snapshots, self.n_modes)
        if error <= _MOST:
            return snapshots, error, None
        reason = f"in the modes of the others a quarter of them err by over {error:.2g} of the output's spread"
        return snapshots, error, reason


def left_out_error(data: Observations, snapshots: Snapshots, n_modes: int) -> float:
    """Error of the outputs of fields in the modes of the others, about its median; a quarter exceed it; in targets."""
    some = thinned(len(data), _JUDGED)
    fields: Array = projected(snapshots.values[some], n_modes)
    read = snapshots.outputs(fields, data.X[some])
    # Where an output cannot be read, nothing is known of it: the mean target stands for it.
    error = data.targets[some] - np.where(np.isfinite(read), data.scaling.to_target(read), 0.0)
    return float(np.quantile(np.abs(error - np.median(error)), _SHARE))


def _restored(data: Observations, state: Mapping[str, Tensor]) -> Coefficient:
    """The process of a coefficient whose state this was; an earlier version's is about a constant."""
    if TRENDED in state:
        return restored(data, state)
    made = ExactGP().restore(data, state)
    assert isinstance(made, ExactPosterior)
    return made


def _alone(snapshots: Snapshots) -> Snapshots:
    """The fields without the emulator."""
    return replace(snapshots, predict=None, calibration=None, residuals=None)


def _noted(reason: str | None, posterior: OfOutputs) -> OfOutputs:
    """The posterior of the outputs alone, with the reason why no field taught it."""
    return replace(posterior, remarks={**posterior.remarks, "fields": f"not used: {reason}"})
