"""Exact Gaussian process (Rasmussen and Williams, 2006, ch. 2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian import draws
from fieldcraft.models.gaussian.fit import Found, Question, known_noise, stated_noise
from fieldcraft.models.gaussian.inducing import INDUCING, InducedFeatures, InducedPosterior, conditioned
from fieldcraft.models.gaussian.process import ExactPosterior, Fit, posterior
from fieldcraft.models.gradients.covariance import PROFILES
from fieldcraft.models.gradients.fit import MOST_ROWS, JointQuestion, told
from fieldcraft.models.gradients.posterior import GradientPosterior
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.checks import refuse_below, refuse_non_positive
from fieldcraft.models.numerics.length_scales import ScalePrior, scale_prior
from fieldcraft.models.numerics.memory import refuse_memory
from fieldcraft.models.numerics.milestones import ByDigest
from fieldcraft.models.observations import Observations
from fieldcraft.models.selection.kernel_choice import PRIORS, kind
from fieldcraft.models.surrogate import Function, Report

# Nats by which results must be less likely, each given the other trials, beside gradients than without, for these to be
# left out; and the entry of a state that has gradients.
_CONTRADICTED, _SLOPES = 3.0, "slopes"
# Matrices of the size of the covariance that are alive at once: in a step of the fit, and with a gradient afterwards.
_COPIES_IN_FIT = 6
_COPIES = 12


@dataclass(frozen=True)
class ExactGP:
    """Gaussian process with a constant mean and one length scale for each encoded coordinate.

    The hyper-parameters maximise the marginal likelihood times their priors. All length scales together have BoTorch's
    dimension-scaled prior (Hvarfner et al., 2024) or one that is narrow about the same mode; the output scale is one,
    since the targets are standardised. They are fitted again at every trial: from several starts up to 50 trials and
    whenever their number has grown by a tenth, else from the last such fit, so that they depend on the trials alone.
    Above ``n_fitted`` trials they are fitted to that many, spread over all, and above
    ``n_exact`` the process goes through 700 inducing points, half of them the best designs (Snelson and Ghahramani,
    2006); ``remarks`` states either.

    Where simulations return gradients, it learns from them too, with BoTorch's prior, and draws are pathwise. Values
    and derivatives are 1,000 at most: of more the gradients of the best trials count, and ``remarks`` states it. Where
    the results are less likely beside them, by 3 nats, they are left out: a sign or a unit may be wrong.

    Args:
        kernel: "matern52" (Matern, smoothness 5/2), "matern32", "matern12" (rougher functions: 3/2 and 1/2) or "rbf"
            (squared exponential), or "chosen": "rbf" with BoTorch's prior where that predicts results which it has not
            seen, a fifth of them at a time, better than "matern52" by 3 nats, judged whenever the trials have grown by
            a tenth. ``remarks`` names it. Beside gradients it is "matern52".
        noise: Noise that all results have: "fitted" with the other hyper-parameters, or "known": taken from
            ``Observations.noise_sd``. The standard deviation that a single result states is known noise beside that
            which is fitted, and instead of that which is known.
        restarts: Fits beside the one from the priors' modes, wherever a fit has several starts: from longer length
            scales, then from parameters drawn from their priors. Of more than 250 trials a part chooses among their
            ends.
        draw: Method to draw a function. "pathwise": a prior of random Fourier features, updated exactly; "joint": exact
            at ``n_skeleton`` Sobol points and kriged between them; "features": regression on ``n_features`` random
            Fourier features, whose variance is too small where n comes near their number.
        n_skeleton: Points of a joint draw, >= 1.
        n_features: Random Fourier features, >= 2.
        n_fitted: Trials up to which all of them fit the hyper-parameters; more add little information, at O(n^3) a
            step.
        n_exact: Trials up to which the process is exact.
        memory_gb: Largest predicted peak of memory, in GB (10^9 bytes), for which a fit is begun.

    Raises:
        ValueError: a number is out of its range.
    """

    uses_physics: ClassVar[bool] = False
    uses_gradients: ClassVar[bool] = True
    weighs_results: ClassVar[bool] = True
    provides: ClassVar[frozenset[Capability]] = frozenset({Capability.INFORMED, Capability.EXACT})

    kernel: Kernel | Literal["chosen"] = "matern52"
    noise: Literal["fitted", "known"] = "fitted"
    restarts: int = 2
    draw: Literal["pathwise", "joint", "features"] = "pathwise"
    n_skeleton: int = 512
    n_features: int = 1024
    n_fitted: int = 1000
    n_exact: int = 5000
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise ValueError(f"restarts is {self.restarts}: give 0 for the one fit from the priors' modes, or more.")
        for name, least in (("n_skeleton", 1), ("n_features", 2), ("n_fitted", 1), ("n_exact", 1)):
            refuse_below(name, getattr(self, name), least)
        refuse_non_positive("memory_gb", self.memory_gb)

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> ExactPosterior | InducedPosterior | GradientPosterior:
        """Fit the hyper-parameters (see Surrogate.fit). A fit takes seconds at most, so ``start`` is not needed.

        Raises:
            ValueError: noise is "known" and the data state none, no start gave a finite fit, or the fit would need more
                than ``memory_gb``.
        """
        self.refuse(data)
        made: ExactPosterior | InducedPosterior | GradientPosterior = self.at(data, self.question(data).answer())
        if self.joins(data):
            joined = self.joined(data)
            worse = isinstance(made, ExactPosterior) and _nats(joined) < _nats(made) - _CONTRADICTED
            made = made if worse else joined
        report(1, made.metrics, made.state)
        return made

    def under(self, prior: ScalePrior, data: Observations) -> ExactPosterior | InducedPosterior:
        """The posterior of the values alone under another prior of the length scales (see ``fit``)."""
        return self.at(data, self.question(data, prior).answer())

    def question(self, data: Observations, prior: ScalePrior | None = None) -> Question:
        """The question for the hyper-parameters of a process of the values, under its own prior or another.

        Raises:
            ValueError: noise is "known" and the data state none.
        """
        self._refuse_unknown(data)
        kernel, known = self._kernel(data), self.noise == "known"
        if prior is None:
            prior = PRIORS[kernel] if self.kernel == "chosen" else scale_prior
        return Question(kernel, known, self.restarts + 1, self.n_fitted, ByDigest.of(data), prior)

    def _kernel(self, data: Observations) -> Kernel:
        """The kernel of a process of the values."""
        return kind(data, self.noise == "known") if self.kernel == "chosen" else self.kernel

    @property
    def _own(self) -> Kernel:
        """The kernel of a process of values and gradients."""
        return "matern52" if self.kernel == "chosen" else self.kernel

    def at(self, data: Observations, found: Found) -> ExactPosterior | InducedPosterior:
        """The posterior of the values at hyper-parameters that were found."""
        v, w = (
            None if of is None else torch.tensor(of, dtype=torch.float64)
            for of in stated_noise(data, known=self.noise == "known")
        )
        arrays = torch.tensor(data.X), torch.tensor(data.targets)
        fit, factor = Fit.at(self._kernel(data), *arrays, v, found, w)
        if len(data) <= self.n_exact:
            return posterior(fit, data.scaling, self._sampler(data), self.notes(data, fit.kernel), factor)
        return self._induced(fit, data)

    def restore(
        self, data: Observations, state: Mapping[str, Tensor]
    ) -> ExactPosterior | InducedPosterior | GradientPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        if self.joins(data) and _SLOPES in state:
            return self._restored(data, state)
        fit = Fit.of(self._own, torch.tensor(data.X), torch.tensor(data.targets), state)
        if len(data) > self.n_exact:
            return self._induced(fit, data)
        return posterior(fit, data.scaling, self._sampler(data), self.notes(data, fit.kernel))

    def _induced(self, fit: Fit, data: Observations) -> InducedPosterior:
        # Asked for its hyper-parameters alone, it makes no n x n matrix.
        exact = posterior(fit, data.scaling, self._sampler(data), {})
        phi = InducedFeatures.of(fit.kernel, exact.length_scales, fit.X, fit.targets)
        return InducedPosterior(
            features=phi,
            model=conditioned(phi, fit.X, exact.noises),
            y=fit.targets - exact.constant,
            constant=exact.constant,
            scaling=data.scaling,
            metrics=fit.metrics,
            kept=fit.state(),
            remarks=self.notes(data, fit.kernel),
        )

    def _sampler(self, data: Observations) -> Callable[[ExactPosterior, int, np.random.Generator], list[Function]]:
        if self.draw == "joint":
            return partial(draws.joint, n_skeleton=self.n_skeleton, space=data.planes)
        if self.draw == "features":
            return partial(draws.features, n_features=self.n_features)
        return draws.pathwise

    def joins(self, data: Observations) -> bool:
        """True if there are gradients, and it can learn from them."""
        if data.gradients is None or self._own not in PROFILES or len(data) >= MOST_ROWS:
            return False
        return not bool(np.isnan(told(data)).all())

    def joined(self, data: Observations, *, blurred: bool = False) -> GradientPosterior:
        """The process of values and gradients; ``blurred`` is that of ``models.gradients.fit``.

        Raises:
            ValueError: as for ``fit``.
        """
        self._refuse_unknown(replace(data, sds=data.sds[:0]))
        known = known_noise(data) if self.noise == "known" else None
        found = JointQuestion(self._own, known is not None, self.restarts + 1, ByDigest.of(data), blurred).answer()
        arrays = torch.tensor(data.X), torch.tensor(data.targets), torch.from_numpy(told(data))
        return GradientPosterior.at(
            self._own, *arrays, known, data.scaling, found, self.notes(data, self._own, beside=True)
        )

    def _restored(self, data: Observations, state: Mapping[str, Tensor]) -> GradientPosterior:
        arrays = torch.tensor(data.X), torch.tensor(data.targets), torch.from_numpy(told(data))
        return replace(
            GradientPosterior.of(self._own, *arrays, data.scaling, state),
            remarks=self.notes(data, self._own, beside=True),
        )

    def notes(self, data: Observations, kernel: Kernel, *, beside: bool = False) -> dict[str, str]:
        """Remarks on a process of the values, or of these ``beside`` gradients."""
        n, remarks = len(data), _noise_remark(data, weighed=not beside)
        remarks |= {"kernel": kernel} if self.kernel == "chosen" else {}
        given = 0 if data.gradients is None else int(np.count_nonzero((~np.isnan(data.gradients)).any(axis=1)))
        if beside:
            used = int(np.count_nonzero((~np.isnan(told(data))).any(axis=1)))
            remarks["gradients"] = f"of {used} of {n} trials"
            return remarks
        if given and self.joins(data):
            remarks["gradients"] = "left out: the results are likelier without them; check their sign and unit"
        elif given:
            why = f"the kernel {self.kernel} has none" if self._own not in PROFILES else f"{n} trials"
            remarks["gradients"] = f"not learnt from ({why}): the values alone count"
        if n > self.n_fitted:
            remarks["hyperparameters"] = f"from {self.n_fitted} of {n} trials"
        if n > self.n_exact:
            remarks["fallback"] = f"{INDUCING} inducing points: {n} trials > n_exact {self.n_exact}"
        return remarks

    def refuse(self, data: Observations) -> None:
        """Accept data to which it can be fitted.

        Raises:
            ValueError: noise is "known" and the data state none, or the fit would need more than ``memory_gb``.
        """
        self._refuse_memory(len(data))
        self._refuse_unknown(data)

    def _refuse_memory(self, n: int) -> None:
        """Refuse a fit to n trials that would need too much memory."""
        doubles = _COPIES_IN_FIT * min(n, self.n_fitted) ** 2
        m = min(n, INDUCING)
        doubles = max(doubles, _COPIES * n**2 if n <= self.n_exact else 3 * n * m + 4 * m**2)
        what = f"A Gaussian process of {n} trials"
        refuse_memory(doubles, self.memory_gb, what, "lower n_exact for inducing points")

    def _refuse_unknown(self, data: Observations) -> None:
        """Refuse data whose noise is not known where it must be."""
        if self.noise == "known" and not data.noise_known:
            raise ValueError(
                'noise is "known" but these observations state none, or only some of them do: give the problem\'s '
                'noise, the standard deviation of every result, or "fitted".'
            )


def _nats(posterior: ExactPosterior | GradientPosterior) -> float:
    """log density of the results, each given the other trials, summed."""
    return float(posterior.log_predictive().sum())


def _noise_remark(data: Observations, *, weighed: bool) -> dict[str, str]:
    """Remark on the standard deviations that single results state."""
    if not data.sds.size:
        return {}
    count = f"{np.count_nonzero(~np.isnan(data.sds[:, 0]))} of {len(data)} results"
    return {"noise": f"stated by {count}" if weighed else f"stated by {count}, and not used beside gradients"}
