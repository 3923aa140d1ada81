"""Hyper-parameters of a tangent kernel: most probable given the results, and determined by the results alone.

The log marginal likelihood plus log-normal priors, maximised by L-BFGS-B with gradients through the layerwise Gram
matrix. A campaign fits them again at every trial up to 50 and then whenever it has grown by 10%. They depend only on
the trials up to that point, so a campaign that was killed computes the same ones again, bit for bit.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldcraft.models.linear.conditioning import marginal_slope
from fieldcraft.models.linear.spectrum import Spectrum
from fieldcraft.models.linear.wide_sine import WideSine
from fieldcraft.models.numerics.length_scales import NARROW_SD
from fieldcraft.models.numerics.milestones import ByDigest, asked, representative, thinned
from fieldcraft.models.numerics.searches import minimize
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.tangent.features import Init, Perceptron, TangentFeatures, fixed, gram
from fieldcraft.models.tangent.kernel import LEAST_NOISE, Hyperparameters, TangentKernel

FIT_ROWS = 512
"""Most trials the hyper-parameters are fitted to, evenly thinned: beyond it they hardly move and cost minutes."""

# Prior of log l: wide enough to drop a coordinate that does not matter, tight enough that twenty trials in ten
# dimensions cannot explain themselves by chance (1.7, as BoTorch has, was overconfident by four deviations).
_OUTPUT_SD = 1.0
_NOISE_MIDDLE, _NOISE_SD = -5.0, 3.0
_BOUNDS = {"scale": (-6.0, 8.0), "output": (-4.0, 6.0), "noise": (math.log(LEAST_NOISE), 1.0)}
_REFERENCE_SEED = 7
# Iterations under each prior, before the best goes on alone, and the gain of a step at which it ends, relative.
TRIED, MOST, ACCURACY = 8, 60, 1e-6
# Most trials that the length scales of a wide layer are fitted to.
_LIMIT_ROWS = 256


def columns(data: Observations) -> NDArray[np.intp]:
    """Number of the length scale of each coordinate, shape (d,); the pixels of one image share one."""
    group = np.arange(data.X.shape[1])
    for image in data.images:
        group[image.first : image.first + math.prod(image.shape)] = image.first
    found: NDArray[np.intp] = np.unique(group, return_inverse=True)[1].reshape(-1)
    return found


@dataclass(frozen=True)
class Evidence:
    """Minus the log posterior of the hyper-parameters, as a function of their logarithms.

    Parameters are v = (log l by group, log s_f^2, log noise), without the last where the noise is known. The prior is
    log-normal: l about ``centre`` (deviation 0.5), s_f^2 about 1, noise about e^-5 (deviation 3).

    Args:
        network: Shape of the network.
        theta: Its weights, shape (p,).
        X: Shape (n, d).
        y: Targets, shape (n,).
        groups: Length scale of each coordinate, shape (d,).
        centre: Length scale before any data, dimensionless.
        noise: Known noise variance of a target, or None.
        normalised: See ``TangentKernel``.
    """

    network: TangentFeatures
    theta: Tensor
    X: Tensor
    y: Tensor
    groups: NDArray[np.intp]
    centre: float
    noise: float | None
    normalised: bool = True

    @property
    def middle(self) -> Array:
        """The prior's mode."""
        scales = [math.log(self.centre)] * (int(self.groups.max()) + 1)
        return np.array([*scales, 0.0, *([] if self.noise is not None else [_NOISE_MIDDLE])])

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Bounds of each parameter."""
        kinds = ["scale"] * (int(self.groups.max()) + 1) + ["output", "noise"]
        return [_BOUNDS[kind] for kind in kinds[: len(self.middle)]]

    def at(self, v: Array) -> tuple[float, Array]:
        """The value and its gradient (g,) at v (g,); infinite with no gradient if the matrix has no factor."""
        point = torch.tensor(v, dtype=torch.float64, requires_grad=True)
        K, noise = self._gram(point), self._noise(point)
        try:
            likelihood, by_gram = marginal_slope(K, noise.detach(), self.y)
        except ValueError:
            return math.inf, np.zeros_like(v)
        deviation = (point - torch.from_numpy(self.middle)) / torch.from_numpy(self.spread)
        prior = 0.5 * deviation.square().sum()
        # K has a graph on one side only: its gradient counts twice. A known noise has none.
        value = prior - (2 * by_gram * K).sum() - by_gram.trace() * noise
        (slope,) = torch.autograd.grad(value, point)
        return float(prior.detach() - likelihood), slope.numpy()

    def found(self, v: Array) -> Hyperparameters:
        """The hyper-parameters of v."""
        scales, output = np.exp(v[self.groups]), math.exp(v[int(self.groups.max()) + 1])
        noise = math.exp(v[-1]) if self.noise is None else self.noise
        return Hyperparameters(torch.from_numpy(scales), output, 1.0, noise)

    @property
    def spread(self) -> Array:
        """The prior's standard deviation of each parameter."""
        scales = [NARROW_SD] * (int(self.groups.max()) + 1)
        return np.array([*scales, _OUTPUT_SD, _NOISE_SD])[: len(self.middle)]

    def _gram(self, v: Tensor) -> Tensor:
        output = v[int(self.groups.max()) + 1].exp()
        kernel = TangentKernel(self.network, self.theta, v.exp()[self.groups], output, 1.0, self.normalised)
        rows = kernel.rows(self.X)
        return gram(rows, fixed(rows))

    def _noise(self, v: Tensor) -> Tensor:
        return v[-1].exp() if self.noise is None else torch.tensor(self.noise, dtype=torch.float64)


class WideEvidence(Evidence):
    """The same for a wide layer of sines, in the limit of infinitely many (see ``WideSine``), for fewer of the trials.

    The kernel of the network itself differs from the limit by a few percent, which no length scale can change: to a
    process it is noise. ``resized`` therefore fits output scale and noise again to the network and all of X.
    """

    def at(self, v: Array) -> tuple[float, Array]:
        """See ``Evidence.at``."""
        scales = v[self.groups]
        noise = v[-1] if self.noise is None else math.log(self.noise)
        value, slope = self.limit.log_likelihood(scales, float(v[int(self.groups.max()) + 1]), float(noise))
        if not math.isfinite(value):
            return math.inf, np.zeros_like(v)
        deviation = (v - self.middle) / self.spread
        by_scale = np.bincount(self.groups, slope[: len(scales)])
        own = np.concatenate([by_scale, slope[len(scales) :]])[: len(v)]
        return 0.5 * float(deviation @ deviation) - value, deviation / self.spread - own

    def resized(self, v: Array) -> tuple[Array, float]:
        """v (g,) with the likeliest output scale and noise of the network's own kernel, and ``Evidence.at`` there."""
        first = int(self.groups.max()) + 1
        spectrum = self.spectrum(v)
        deviations = (v - self.middle) / self.spread
        fixed_part = 0.5 * float(deviations[:first] @ deviations[:first])

        def at(sizes: Array) -> tuple[float, Array]:
            noise = sizes[1] if self.noise is None else math.log(self.noise)
            likelihood, slope = spectrum.log_likelihood(float(sizes[0]), float(noise))
            deviation = (sizes - self.middle[first:]) / self.spread[first:]
            value = fixed_part + 0.5 * float(deviation @ deviation) - likelihood
            return float(value), deviation / self.spread[first:] - slope[: len(sizes)]

        options = {"maxiter": MOST, "ftol": ACCURACY}
        found = minimize(at, v[first:], jac=True, method="L-BFGS-B", bounds=self.bounds[first:], options=options)
        return np.concatenate([v[:first], found.x]), float(found.fun)

    def spectrum(self, v: Array) -> Spectrum:
        """The network's own kernel at the length scales of v (g,)."""
        with torch.no_grad():
            kernel = TangentKernel(self.network, self.theta, torch.from_numpy(np.exp(v[self.groups])), 1.0, 0.0, True)
            rows = kernel.rows(self.X)
            return Spectrum.of(gram(rows, rows).numpy(), self.y.numpy())

    @cached_property
    def limit(self) -> WideSine:
        """The evidence of the limit, for fewer of the trials."""
        network = self.network
        assert isinstance(network, Perceptron)  # no other network is wide_sine
        rows = thinned(len(self.X), _LIMIT_ROWS)
        return WideSine(self.X.numpy()[rows], self.y.numpy()[rows], network.gain)


@dataclass(frozen=True)
class Question:
    """Arguments that determine the hyper-parameters, so that an interrupted campaign computes the same ones again.

    Args:
        network: Shape of the network; its weights are fixed ones.
        trials: The trials.
        centres: Length scales before any data, each the middle of a prior of its own (see ``Evidence``).
        normalised: See ``TangentKernel``.
        init: Initialisation of those weights; a last layer of zeros keeps other rows, which need other
            hyper-parameters.
    """

    network: TangentFeatures
    trials: ByDigest
    centres: tuple[float, ...]
    normalised: bool
    init: Init


def hyperparameters(
    network: TangentFeatures,
    data: Observations,
    centres: tuple[float, ...],
    *,
    normalised: bool = True,
    init: Init = "gaussian",
) -> tuple[Hyperparameters, float]:
    """Hyper-parameters for data, in its target units, and their log posterior for the trials they were fitted to.

    They depend only on the first ``milestone(n)`` trials, or on all if the results of those are constant and give no
    scale, or if later ones dwarf them (``representative``). L-BFGS-B starts from the mode of each prior; after a few
    iterations the most probable goes on alone, the first among equals. A process caches its results; another process
    computes the same numbers again.
    """
    question = Question(network, ByDigest.of(representative(data)), centres, normalised, init)
    return answered(question).given_to(data, question.trials.data)


@dataclass(frozen=True)
class Answer:
    """The hyper-parameters and their log posterior."""

    found: Hyperparameters
    log_posterior: float

    @classmethod
    def of(cls, evidence: Evidence, v: Array, value: float) -> "Answer":
        """The answer at v (g,), where ``Evidence.at`` is the value.

        Raises:
            ValueError: it is not finite.
        """
        if not math.isfinite(value):
            raise ValueError(
                f"No hyper-parameters of the tangent kernel give a finite likelihood ({len(evidence.y)} trials): "
                "look for extreme results, or set hyperparameters to fixed."
            )
        return cls(evidence.found(v), -value)

    def given_to(self, data: Observations, first: Observations) -> tuple[Hyperparameters, float]:
        """The hyper-parameters in the target units of data, found for its ``first`` trials, and the log posterior."""
        here = self.found.times((first.scaling.sd / data.scaling.sd) ** 2)
        known = data.noise_variance
        noise = here.noise if known is None else max(known, LEAST_NOISE)
        return replace(here, noise=noise), self.log_posterior


@lru_cache(maxsize=512)
def answered(question: Question) -> Answer:
    """The answer to a question; a process keeps it.

    Raises:
        ValueError: no hyper-parameters have a finite likelihood.
    """
    evidence = evidence_of(question)
    priors = [replace(evidence, centre=centre) for centre in question.centres]
    begun = [(prior, *_descend(prior, prior.middle, TRIED)) for prior in priors]
    prior, v, _ = min(begun, key=lambda found: found[2])
    v, value = _descend(prior, v, MOST)
    if isinstance(prior, WideEvidence):
        v, value = prior.resized(v)
    return Answer.of(evidence, v, value)


def evidence_of(question: Question) -> Evidence:
    """The evidence of a question, about the first of its centres."""
    data = question.trials.data
    known = data.noise_variance
    rows = asked(data, FIT_ROWS)
    wide = isinstance(question.network, Perceptron) and question.network.is_wide_sine
    return (WideEvidence if wide and question.normalised and question.init == "gaussian" else Evidence)(
        network=question.network,
        theta=question.network.initial(torch.Generator().manual_seed(_REFERENCE_SEED), question.init),
        X=torch.tensor(data.X[rows]),
        y=torch.tensor(data.targets[rows]),
        groups=columns(data),
        centre=question.centres[0],
        noise=None if known is None else max(known, LEAST_NOISE),
        normalised=question.normalised,
    )


def _descend(evidence: Evidence, start: Array, iterations: int) -> tuple[Array, float]:
    options = {"maxiter": iterations, "ftol": ACCURACY}
    result = minimize(evidence.at, start, jac=True, method="L-BFGS-B", bounds=evidence.bounds, options=options)
    return np.asarray(result.x), float(result.fun)
