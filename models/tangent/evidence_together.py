"""Hyper-parameters of a wide layer of sines for several outputs of the same trials, in steps of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from fieldcraft.models.linear.spectrum import Spectrum
from fieldcraft.models.linear.wide_sine import WideSine
from fieldcraft.models.numerics.milestones import ByDigest, representative
from fieldcraft.models.observations import Array, Observations
from fieldcraft.models.tangent.evidence import (
    ACCURACY,
    MOST,
    TRIED,
    Answer,
    Question,
    WideEvidence,
    answered,
    evidence_of,
)
from fieldcraft.models.tangent.features import Init, TangentFeatures
from fieldcraft.models.tangent.kernel import Hyperparameters

Loss = Callable[[Array, list[int]], tuple[Array, Array]]
# What L-BFGS-B is told where there is no finite density: it then shortens its step.
_REFUSED = 1e12


def hyperparameters_together(
    network: TangentFeatures,
    data: Sequence[Observations],
    centres: tuple[float, ...],
    *,
    normalised: bool = True,
    init: Init = "gaussian",
) -> list[tuple[Hyperparameters, float]]:
    """``hyperparameters`` for several outputs, to rounding.

    Raises:
        ValueError: none of an output have a finite likelihood.
    """
    firsts = [representative(own) for own in data]
    questions = tuple(Question(network, ByDigest.of(first), centres, normalised, init) for first in firsts)
    answers = _answered(questions)
    return [answer.given_to(own, first) for answer, own, first in zip(answers, data, firsts, strict=True)]


@lru_cache(maxsize=64)
def _answered(questions: tuple[Question, ...]) -> list[Answer]:
    """The answers to questions about one network; alone where no closed form takes them together."""
    evidences = [evidence_of(question) for question in questions]
    wide = tuple(each for each in evidences if isinstance(each, WideEvidence))
    forms = {(each.X.numpy().tobytes(), each.noise is None) for each in evidences}
    if len(questions) == 1 or len(wide) < len(evidences) or len(forms) > 1:
        return [answered(question) for question in questions]
    found = Together(wide).likeliest(questions[0].centres)
    return [Answer.of(evidence, *at) for evidence, at in zip(wide, found, strict=True)]


@dataclass(frozen=True, eq=False)
class Together:
    """Evidences of several outputs, whose hyper-parameters have the same bounds.

    Args:
        evidences: Of each output; one network, and results at the same X.
    """

    evidences: tuple[WideEvidence, ...]

    def likeliest(self, centres: Sequence[float]) -> list[tuple[Array, float]]:
        """The likeliest v (g,) of each output and ``Evidence.at`` there, over priors about these centres.

        As for one output alone, to rounding: a few iterations under each prior, then the best goes on.
        """
        each = [[replace(evidence, centre=centre) for centre in centres] for evidence in self.evidences]
        tried = Together(tuple(prior for priors in each for prior in priors))
        points, values = tried._descended(np.stack([prior.middle for prior in tried.evidences]), TRIED)
        best = values.reshape(len(each), -1).argmin(axis=1)
        rows = len(centres) * np.arange(len(each)) + best
        chosen = Together(tuple(tried.evidences[row] for row in rows))
        v, _ = chosen._descended(points[rows], MOST)
        return chosen._resized(v)

    def _descended(self, starts: Array, iterations: int) -> tuple[Array, Array]:
        """Ends (s, g) of as many iterations from the starts (s, g), and their values (s,)."""
        return _minimised(self._at, starts, self.evidences[0].bounds, iterations)

    def _at(self, v: Array, numbers: list[int]) -> tuple[Array, Array]:
        """``Evidence.at`` of some of the outputs at v (k, g), shapes (k,) and (k, g)."""
        first, groups = self.evidences[0], self.evidences[0].groups
        noise = v[:, -1:] if first.noise is None else np.log(self._noises[numbers])[:, None]
        sizes = v[:, int(groups.max()) + 1][:, None]
        found, slopes = self._limit.log_likelihoods(
            np.hstack([v[:, groups], sizes, noise]), self._limit.targets[numbers]
        )
        deviations = (v - self._middles[numbers]) / first.spread
        by_scale = slopes[:, : len(groups)] @ (groups[:, None] == np.arange(int(groups.max()) + 1))
        own = np.hstack([by_scale, slopes[:, len(groups) :]])[:, : v.shape[1]]
        return 0.5 * (deviations**2).sum(axis=1) - found, deviations / first.spread - own

    def _resized(self, v: Array) -> list[tuple[Array, float]]:
        """``WideEvidence.resized`` of every output at v (s, g)."""
        first = int(self.evidences[0].groups.max()) + 1
        spread, spectra = (
            self.evidences[0].spread,
            [each.spectrum(own) for each, own in zip(self.evidences, v, strict=True)],
        )
        all_of = Spectrum.stacked(spectra)
        fixed = 0.5 * (((v - self._middles) / spread)[:, :first] ** 2).sum(axis=1)

        def at(sizes: Array, numbers: list[int]) -> tuple[Array, Array]:
            some = Spectrum(all_of.values[numbers], all_of.ones[numbers], all_of.targets[numbers])
            noise = sizes[:, 1] if self.evidences[0].noise is None else np.log(self._noises[numbers])
            likelihoods, slopes = some.log_likelihood(sizes[:, 0], noise)
            deviations = (sizes - self._middles[numbers][:, first:]) / spread[first:]
            values = fixed[numbers] + 0.5 * (deviations**2).sum(axis=1) - likelihoods
            return values, deviations / spread[first:] - slopes[:, : sizes.shape[1]]

        found, values = _minimised(at, v[:, first:], self.evidences[0].bounds[first:], MOST)
        return list(zip(np.hstack([v[:, :first], found]), values.tolist(), strict=True))

    @cached_property
    def _limit(self) -> WideSine:
        limits = [evidence.limit for evidence in self.evidences]
        return replace(limits[0], targets=np.stack([each.targets for each in limits]))

    @cached_property
    def _middles(self) -> Array:
        return np.stack([evidence.middle for evidence in self.evidences])

    @cached_property
    def _noises(self) -> Array:
        return np.array([evidence.noise for evidence in self.evidences], dtype=np.float64)


def _minimised(loss: Loss, starts: Array, bounds: list[tuple[float, float]], iterations: int) -> tuple[Array, Array]:
    """Ends (s, g) of L-BFGS-B from the starts (s, g), and the losses there (s,), infinite where there is none."""
    from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched

    def told(points: Array, batch_indices: list[int]) -> tuple[Array, Array]:
        values, slopes = loss(points, batch_indices)
        known = np.isfinite(values)
        return np.where(known, values, _REFUSED), np.where(known[:, None], slopes, 0.0)

    ends, values, _ = fmin_l_bfgs_b_batched(  # type: ignore[no-untyped-call]
        told, starts, bounds=bounds, factr=None, ftol=ACCURACY, maxiter=iterations, pass_batch_indices=True
    )
    return np.asarray(ends), np.where(values < _REFUSED, values, np.inf)
