"""Outputs of the simulator's own equations, projected on the stored fields of the runs (reduced basis method)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.certified.regret import unbounded
from fieldcraft.models.emulation.field_posterior import densities
from fieldcraft.models.emulation.galerkin import Projection
from fieldcraft.models.emulation.galerkin_posterior import GalerkinPosterior, predicted, spread, systems
from fieldcraft.models.emulation.posterior import EmulatedPosterior
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.surrogate import Report
from fieldcraft.models.surrogates.emulated_gp import EmulatedGP
from fieldcraft.physics.parametric.discrete import DiscreteSystem

_KAPPA = "kappa"
# Trials below which the errors of those left out say too little.
_LEAST = 4
# Share of the loads, and of a result, beyond which what is left is no rounding.
_ROUNDING = 1e-6
# Size R, or R^2 of a compliance, below which an error is rounding and tells nothing of larger ones.
_TELLING = 1e-9
# Variance, in targets, below which a prediction of a result left out is as good as exact.
_EXACT = 1e-12


@dataclass(frozen=True)
class ReducedBasis:
    """The simulator's discrete equations, projected on the fields of the runs (Hesthaven, Rozza and Stamm, 2016).

    For a problem that states them (``Problem.discrete``). The equations are solved in the span of the stored fields,
    and the output is read from that solution; its error is in proportion to the residual, by a factor that the results
    left out one by one tell. Where the output is the work of the loads, the solution's is a lower bound for every
    design. The error, in proportion to the square of the residual, is believed to be so large that the bound is two
    standard deviations below the mean: ``ucb`` with its default beta proposes the design of the least bound. The best
    result less the proven minimum of the bounds is a certificate, a bound of the regret.
    Every stored field must satisfy the equations to rounding, and no result may be below its bound: else, and up to
    three trials, ``emulated_gp`` learns from the outputs instead, and a remark says why.
    """

    uses_physics: ClassVar[bool] = False
    uses_emulator: ClassVar[bool] = True
    uses_fields: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EMULATOR})
    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.BOUNDS_REGRET})

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> GalerkinPosterior | EmulatedPosterior:
        """Project the equations and judge the errors (see Surrogate.fit); seconds at most, ``start`` is not needed.

        Raises:
            ValueError: the problem has no emulator, or no process can be fitted to the outputs.
        """
        made = _projected(data)
        if isinstance(made, str):
            return _noted(EmulatedGP().fit(data, rng, start, report), made)
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> GalerkinPosterior | EmulatedPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        made = _projected(data)
        if isinstance(made, str):
            return _noted(EmulatedGP().restore(data, state), made)
        if _KAPPA not in state or float(state[_KAPPA]) != made.kappa:
            raise ValueError("This state is not of a reduced basis on the fields of these trials: fit it again.")
        return made


def _noted(posterior: EmulatedPosterior, reason: str) -> EmulatedPosterior:
    return replace(posterior, notes={**posterior.notes, "reduced_basis": f"not used: {reason}"})


def _projected(data: Observations) -> GalerkinPosterior | str:
    """The posterior, or the reason why there is none; a function of the data alone."""
    snapshots = data.snapshots
    if snapshots is None:
        return "not every trial left a field from which its outputs can be read"
    if snapshots.discrete is None:
        return "the problem states no discrete equations (`discrete`)"
    if len(data) < _LEAST:
        return f"there are {len(data)} trials, and {_LEAST} teach how well their fields serve each other"
    system = systems(snapshots, data.X)
    values = snapshots.values[:, snapshots.names.index(system.field)]
    compliance = system.compliance and snapshots.output == 0
    if not (np.linalg.norm(values[:, system.free], axis=1) > 0).all():
        return "a field is zero"
    try:
        projection = Projection.of(values[:, system.free], system)
    except ValueError as error:
        return str(error)
    if (told := _contradicted(data, projection, system, values, compliance)) is not None:
        return told
    errors, residuals = _left_out(data, projection)
    sizes = spread(residuals, compliance)
    each = [_moments(np.delete(errors, i), np.delete(sizes, i), data.y, compliance) for i in range(len(data))]
    (bias, kappa), (biases, kappas) = _moments(errors, sizes, data.y, compliance), np.array(each).T
    scaling = data.scaling
    variances = np.maximum((kappas * sizes / scaling.sd) ** 2, _EXACT) + (data.noise_variance or 0.0)
    return GalerkinPosterior(
        snapshots,
        projection,
        scaling,
        compliance,
        float(bias),
        float(kappa),
        densities((errors - biases * sizes) / scaling.sd, variances),
        float(np.sqrt(np.mean((errors - biases * sizes) ** 2)) / scaling.sd),
        data.X.shape[1],
        float(data.y.min()),
        stamped(data) | {_KAPPA: torch.tensor(float(kappa), dtype=torch.float64)},
        {"equation": "the fields satisfy the discrete equations to rounding"},
        _unproven(data, compliance, system),
    )


def _moments(errors: Array, sizes: Array, y: Array, compliance: bool) -> tuple[float, float]:
    """Mean and standard deviation of an error for each unit of its size, from errors and sizes (n,) that tell it.

    Late in a search most designs lie in the span of the others. Their errors are rounding, of either sign, and do not
    count. If no design counts, the mean of y is the scale: with the stiffness A_0 the error of a compliance is R^2
    times the compliance itself.
    """
    telling = sizes >= _TELLING
    ratios = errors[telling] / sizes[telling] if telling.any() else np.array([np.abs(y).mean()])
    if compliance:
        bias = max(float(ratios.mean()), 0.0)
        return bias, bias / 2
    return 0.0, float(np.sqrt((ratios**2).mean()))


def _contradicted(
    data: Observations, projection: Projection, system: DiscreteSystem, values: Array, compliance: bool
) -> str | None:
    """Reason why the fields (n, cells) or results refute the stated equations; None if they do not.

    Of the compliance, the lower bound at a design whose field is in the basis is the result itself.
    """
    bounds = projection.solve(system).works
    below = (bounds - data.y) / np.abs(bounds)
    if compliance and below.max() > _ROUNDING:
        worst = int(below.argmax())
        return (
            f"the stated equations are refuted: the result {data.y[worst]:.6g} is below {bounds[worst]:.6g}, the lower "
            "bound by the equations at its own design; the stated structure is softer than the simulated one, and "
            "nothing is proven"
        )
    left = projection.residuals_of(system, values[:, system.free])
    fixed = np.delete(values, system.free, axis=1)
    beside = np.abs(fixed).max(initial=0.0) / np.abs(values).max()
    worst_share = max(float(left.max()), beside, float(np.abs(below).max()) if compliance else 0.0)
    if worst_share > _ROUNDING:
        return (
            f"the stated equations are not those of the simulator: its fields leave {worst_share:.2g} of them, and "
            "rounding would leave 1e-6 at most; nothing is proven"
        )
    return None


def _left_out(data: Observations, projection: Projection) -> tuple[Array, Array]:
    """Errors of the results, each predicted by the fields of the others, and their residuals, each (n,)."""
    assert data.snapshots is not None  # else there is no projection
    errors, residuals = np.empty(len(data)), np.empty(len(data))
    for i in range(len(data)):
        others, X = projection.without(i), data.X[i : i + 1]
        system = systems(data.snapshots, X)
        found = others.solve(system)
        told = predicted(data.snapshots, others, system, found, X)
        errors[i], residuals[i] = data.y[i] - told[0], found.residuals[0]
    return errors, residuals


def _unproven(data: Observations, compliance: bool, system: DiscreteSystem) -> str:
    """Reason why nothing can be proven of the best design; empty if it can be."""
    if not compliance:
        return "the output is not the work of the loads"
    if data.maximize:
        return "a lower bound says nothing of the largest value"
    if data.constraints.size:
        return "results must satisfy constraints"
    if data.space is not None and (reason := unbounded(data.space)):
        return reason
    if system.above is None or data.snapshots is None or data.snapshots.terms is None:
        return "no convex functions above the stiffness are stated (`above`)"
    short = 1 - data.snapshots.terms(data.X) @ system.above.shapes / system.stiffness
    if short.max() > _ROUNDING:
        return (
            f"the functions that are stated above the stiffness (`above`) are below it, by {short.max():.2g} of it at "
            "a design that was tried"
        )
    return ""
