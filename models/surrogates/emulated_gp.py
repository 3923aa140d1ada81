"""Gaussian process on the difference between results and an emulator's predictions (Kennedy and O'Hagan, 2000)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.emulation.calibration import Calibrated, calibrated
from fieldcraft.models.emulation.posterior import EmulatedPosterior, Multiple, mixed, weighted
from fieldcraft.models.emulation.slopes import with_slopes
from fieldcraft.models.gaussian.fit import Found
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.gradients.fit import rows_of, scaled, told
from fieldcraft.models.gradients.posterior import GradientPosterior
from fieldcraft.models.gradients.rows import Values, ValuesAndSlopes
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.length_scales import wide_prior
from fieldcraft.models.numerics.scores import LEAST_SD
from fieldcraft.models.numerics.states import named, part
from fieldcraft.models.observations import Array, Emulator, Observations
from fieldcraft.models.surrogate import Posterior, Report
from fieldcraft.models.surrogates.exact_gp import ExactGP

_PREDICTIONS, _SLOPES = "predictions", "slopes"
_CALIBRATED, _ERRORS = "calibrated", "calibrated_errors"
_ALONE = "alone"
_MOST = 5000
# Results below which a straight line through them and the predictions says nothing.
_LEAST_FOR_LINE = 4
# Prior standard deviation of an uncertain factor, about 1.
_SPREAD = 1.0
# Prior of the log of the difference's variance, in squared targets, and values over which its mean is summed.
_SIZE, _WIDE = 2 * math.log(0.03), 2.0
_VARIANCES = np.linspace(2 * math.log(LEAST_SD), 2 * math.log(30.0), 2001)
# Largest share of the difference's size that an emulator's jitter takes.
_MOST_JITTER = 0.95
# Draws of a process's hyper-parameters, and results up to which several are believed: more leave little doubt of them.
_DRAWS, _FEW = 16, 100
_THETAS, _SHARES = "thetas", "shares"
# Largest share of the results' spread that a difference counts as: its square must remain a float64.
_LARGEST = 1e100
# Prior means and standard deviations of rho.
_RHOS = ((0.0, 0.0), (1.0, 0.0), (1.0, _SPREAD))


@dataclass(frozen=True)
class EmulatedGP:
    """Results as rho times the emulator's prediction plus a Gaussian process, for rho of 0, of 1, and about 1.

    The third, from four results on, has rho ~ N(1, 1). It is left out, and a remark states this, where predictions are
    so much larger than the results that its covariance cannot be computed. The three are weighted by how well each
    predicts every result from the others. The first is exact_gp's process, and the differences have BoTorch's prior of
    length scales: where that predicts the results alone better, too, it is no merit of the emulator, and counts for the
    first. A useless emulator is given the factor 0, with which it has no effect; a good one leaves little for the
    process to learn. Where the trials left readings of a field at single places, uncertain coefficients of the
    emulator's equation are fitted to these before (``models.emulation.calibration``).

    Where simulations return gradients, it learns from them too: value and derivatives of the difference are rows of one
    process (``models.gradients``), the emulator's derivatives are differences of its predictions, and those of a mesh
    have a noise of their own, which is fitted. Values and derivatives are 1,000 at most, as in exact_gp.

    Args:
        kernel: Covariance of the difference, "matern52", "matern32", "matern12" or "rbf".
        noise: Of the difference: "fitted", or "known": taken from ``Observations.noise_sd``. A coarse mesh makes the
            difference jump a little from design to design, which counts as noise.
        restarts: Fits beside the one from the priors' modes: from longer length scales, then from parameters drawn from
            their priors.

    Raises:
        ValueError: restarts is negative.
    """

    uses_physics: ClassVar[bool] = False
    uses_emulator: ClassVar[bool] = True
    uses_gradients: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EMULATOR})

    kernel: Kernel = "matern52"
    noise: Literal["fitted", "known"] = "fitted"
    restarts: int = 2

    def __post_init__(self) -> None:
        self._process()

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> EmulatedPosterior:
        """Fit a process for each factor (see Surrogate.fit). A fit takes seconds at most: ``start`` is not needed.

        Raises:
            ValueError: the problem has no emulator, it gives no finite prediction for a design, there are more than
                5,000 trials, or a process cannot be fitted.
        """
        if not data.emulators:
            raise ValueError(
                "The problem has no emulator and surrogate emulated_gp needs one: state its equation (`parametric` and "
                "`functional`) or a cheap model (`emulate`), or use surrogate exact_gp."
            )
        if len(data) > _MOST:
            raise ValueError(f"There are {len(data)} trials, and emulated_gp takes {_MOST}: use exact_gp or auto.")
        fitted = None if data.readings is None else calibrated(data.readings.calibration, data.readings.X)
        emulator = _emulator(data, fitted)
        predictions = emulator.predict(data.X)
        slopes = _slopes(data, emulator) if self._process().joins(data) else None
        differences = _differences(data, predictions, slopes)
        processes = [self._alone(differences[0]), *(self._fitted(each) for each in differences[1:])]
        at = _Data(data, emulator, predictions, slopes)
        alone = None if slopes is not None else mixed(at.multiples(0, self._fitted(differences[0]), differences[0]))
        made = _posterior(at, fitted, differences, processes, alone)
        report(1, made.metrics, made.state)
        return made

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> EmulatedPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        fitted = None
        if data.readings is not None:
            stated = data.readings.calibration.coefficients
            fitted = Calibrated(stated, state[_CALIBRATED].numpy(), state[_ERRORS].numpy())
        predictions = state[_PREDICTIONS].numpy()
        slopes = state[_SLOPES].numpy() if _SLOPES in state else None
        differences = _differences(data, predictions, slopes)
        processes = [self._restored(each, part(state, f"{number}.")) for number, each in enumerate(differences)]
        alone = state.get(_ALONE)
        at = _Data(data, _emulator(data, fitted), predictions, slopes)
        return _posterior(at, fitted, differences, processes, alone)

    def _alone(self, results: Observations) -> "_Believed":
        """The process of the results alone, as exact_gp has it but that gradients have a noise of their own."""
        process = self._process()
        if process.joins(results):
            return self._fitted(results)
        return _Believed.one(process.at(results, process.question(results).answer()))

    def _fitted(self, difference: Observations) -> "_Believed":
        """A process of a difference, or several whose hyper-parameters are about as likely.

        A dozen results determine few length scales. With the likeliest alone two-sigma intervals held 80% of the
        cantilever's results, of which 12 were known.
        """
        process = self._process()
        if process.joins(difference):
            return _Believed.one(process.joined(difference, blurred=True))
        asked = process.question(difference, wide_prior)
        if len(difference) > _FEW:
            return _Believed.one(process.at(difference, asked.answer()))
        return self._several(difference, *asked.several(_DRAWS))

    def _restored(self, difference: Observations, state: Mapping[str, Tensor]) -> "_Believed":
        """The processes whose state this was; states of before have one."""
        if _THETAS in state:
            return self._several(difference, state[_THETAS].numpy(), state[_SHARES].numpy())
        return _Believed.one(self._process().restore(difference, state))

    def _several(self, difference: Observations, thetas: Array, shares: Array) -> "_Believed":
        found = (Found(theta, math.nan, np.arange(len(difference))) for theta in thetas)
        processes = tuple(self._process().at(difference, each) for each in found)
        kept = {_THETAS: torch.tensor(thetas), _SHARES: torch.tensor(shares)}
        return _Believed(processes, shares, kept)

    def _process(self) -> ExactGP:
        return ExactGP(kernel=self.kernel, noise=self.noise, restarts=self.restarts, n_exact=_MOST)


def _emulator(data: Observations, fitted: Calibrated | None) -> Emulator:
    """The emulator, of the calibrated coefficients if there are any."""
    if fitted is None or data.readings is None or fitted.stand:
        return data.emulators[0]
    return data.readings.emulator(fitted.values)


def _lines(data: Observations, predictions: Array) -> list[float]:
    """0, 1 and, if there are enough results, the slope of their least-squares line over the predictions (n,).

    Sums are exactly rounded: a machine that restores a state must find the same slope.
    """
    spread = predictions - math.fsum(predictions) / len(predictions)
    with np.errstate(over="ignore"):
        square = math.fsum(spread**2)
    slope = math.fsum(spread * data.y) / square if square > 0 else 0.0
    return [0.0, 1.0, slope][: 3 if len(data) >= _LEAST_FOR_LINE else 2]


def _slopes(data: Observations, emulator: Emulator) -> Array | None:
    """The emulator's derivatives (n, d) where a process learns from the results' own; None if it learns from none.

    They are differences of designs so near (``STEP``) that most meet the same cells of a mesh: what these add from cell
    to cell is then the derivative's blur, which is fitted. Wider steps would blur the kinks that the output itself has.
    """
    if data.gradients is None:
        return None
    slopes = np.where(np.isnan(told(data)), np.nan, with_slopes(emulator.predict, data.X, stepped=emulator.stepped)[1])
    return None if np.isnan(slopes).all() else slopes


def _differences(data: Observations, predictions: Array, slopes: Array | None) -> list[Observations]:
    """Results less these multiples of the predictions (n,), and their derivatives (n, d) if there are any.

    Each gives the hyper-parameters of one process.
    """
    return [
        Observations(
            data.X,
            data.y - line * predictions,
            data.maximize,
            data.noise_sd,
            images=data.images,
            columns=data.columns,
            space=data.space,
            gradients=None if slopes is None or data.gradients is None else data.gradients - line * slopes,
        )
        for line in _lines(data, predictions)
    ]


def _size(rho: float, spread: float, difference: Observations, data: Observations) -> float:
    """Standard deviation of the difference in targets: for a rho of 0 that of the results, as exact_gp has it.

    Few differences may all be small by chance. The log of their variance has the prior N(2 log 0.03, 2^2), and a line
    that was fitted to them takes a degree of freedom. The mean of the variance is believed.
    """
    if rho == 0:
        return 1.0
    own = 0.0 if difference.constant else min(difference.scaling.sd / data.scaling.sd, _LARGEST)
    seen, free = (len(data) - 1) * own**2, len(data) - 1 - (spread > 0)
    logs = -0.5 * (((_VARIANCES - _SIZE) / _WIDE) ** 2 + free * _VARIANCES + seen * np.exp(-_VARIANCES))
    shares = np.exp(logs - logs.max())
    return math.sqrt(float(shares @ np.exp(_VARIANCES) / shares.sum()))


@dataclass(frozen=True, eq=False)
class _Believed:
    """Processes of one difference, their shares of the belief (k,), and their state."""

    processes: tuple[object, ...]
    shares: Array
    state: Mapping[str, Tensor]

    @classmethod
    def one(cls, process: Posterior) -> "_Believed":
        """A process alone."""
        return cls((process,), np.ones(1), process.state())


@dataclass(frozen=True, eq=False)
class _Data:
    """Results, the emulator, its predictions (n,) there, and its derivatives (n, d) or None if none count."""

    data: Observations
    emulator: Emulator
    predictions: Array
    slopes: Array | None

    def multiples(self, number: int, believed: _Believed, difference: Observations) -> tuple[Multiple, ...]:
        """The beliefs for the factor of this number, from the processes of its difference."""
        (rho, spread), data = _RHOS[number], self.data
        size = _size(rho, spread, difference, data)
        jitter = min(abs(rho) * self.emulator.jitter / data.scaling.sd, _MOST_JITTER * size)
        unit, made = math.sqrt(size**2 - jitter**2), []
        for process, share in zip(believed.processes, believed.shares, strict=True):
            assert isinstance(process, ExactPosterior | GradientPosterior)
            of = _learnt(process, data, self.predictions, self.slopes, (size / unit) ** 2)
            noise = max(of.noise * size**2, jitter**2) / unit**2
            made.append(Multiple(rho, spread, of.rows, unit, noise, jitter, of.predictions, of.targets, float(share)))
        return tuple(made)


def _posterior(
    at: _Data,
    fitted: Calibrated | None,
    differences: Sequence[Observations],
    believed: Sequence[_Believed],
    alone: Tensor | None,
) -> EmulatedPosterior:
    """The mixture of the fitted processes; ``alone`` are densities (n,) that may weigh the first (see ``weighted``)."""
    data, slopes = at.data, at.slopes
    state = stamped(data) | {_PREDICTIONS: torch.tensor(at.predictions)}
    if slopes is not None:
        state |= {_SLOPES: torch.tensor(slopes)}
    if alone is not None:
        state |= {_ALONE: alone}
    factors = []
    for number, (each, difference) in enumerate(zip(believed, differences, strict=True)):
        factors.append(at.multiples(number, each, difference))
        state |= named(f"{number}.", each.state)
    notes: dict[str, str] = {}
    if not all(each.factored for each in factors[-1]) and factors[-1][0].spread:
        factors.pop()
        largest = np.abs(data.scaling.to_target(at.predictions)).max()
        notes = {
            "factor": f"not learnt, since predictions are up to {largest:.1g} standard deviations of the results "
            "from their mean; check the emulator's unit"
        }
    if slopes is not None:
        notes |= {"gradients": f"of {np.count_nonzero((~np.isnan(slopes)).any(axis=1))} of {len(data)} trials"}
    if fitted is not None and data.readings is not None:
        state |= {_CALIBRATED: torch.tensor(fitted.values), _ERRORS: torch.tensor(fitted.errors)}
        notes |= {"readings": data.readings.remark, "coefficients": fitted.remark}
    return EmulatedPosterior(*weighted(factors, alone), at.emulator, data.scaling, state, notes, fitted)


@dataclass(frozen=True, eq=False)
class _Learnt:
    """Rows of a process, with the predictions and the results there, in targets, and the noise of a value."""

    rows: Values
    predictions: Tensor
    targets: Tensor
    noise: float


def _learnt(
    process: ExactPosterior | GradientPosterior, data: Observations, predictions: Array, slopes: Array | None, by: float
) -> _Learnt:
    """Rows of a process with what is known there; ``by`` turns its variances into those in the difference's unit."""
    foreseen = data.scaling.to_target(predictions)
    if isinstance(process, ExactPosterior) or slopes is None:
        assert isinstance(process, ExactPosterior)
        rows = Values(process.fit.kernel, process.fit.X, process.length_scales)
        return _Learnt(rows, torch.tensor(foreseen), torch.tensor(data.targets), process.noise_variance)
    factor = data.scaling.sign / data.scaling.sd
    (y, known), (c, _) = rows_of(data.targets, told(data)), rows_of(foreseen, factor * slopes)
    joint = ValuesAndSlopes(process.kernel, process.X, process.scales, known, by * process.noise, by * process.blur)
    c, y = (scaled(each, known, process.scales) for each in (c, y))
    return _Learnt(joint, c, y, process.noise)
