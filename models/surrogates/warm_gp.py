"""Gaussian process that begins with the results of an earlier campaign (Kennedy and O'Hagan, 2000)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.data.earlier_results import MOST_EARLIER
from fieldcraft.models.earlier.fit import Coupled, Density
from fieldcraft.models.earlier.posterior import CoupledPosterior, earlier_covariance
from fieldcraft.models.gaussian.fit import known_noise
from fieldcraft.models.gaussian.process import ExactPosterior
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.numerics.states import named, part
from fieldcraft.models.observations import EarlierResults, Observations
from fieldcraft.models.surrogate import Report, no_report
from fieldcraft.models.surrogates.exact_gp import ExactGP

_MOST = 2000
_SOURCE, _FOUND, _CHOSEN = "source.", "found", "chosen"


@dataclass(frozen=True)
class WarmGP:
    """Results as a factor times the process of an earlier campaign's results plus a Gaussian process.

    The earlier process is an exact one, fitted to the results of the campaign that ``warm_start`` names, and enters
    with its uncertainty. The factor is fitted, and may be 0: an unrelated campaign then says nothing. Of several
    earlier campaigns the one that predicts the results best, each from the others, counts.

    Args:
        kernel: Covariance of the earlier process and of the difference, "matern52", "matern32", "matern12" or "rbf".
        noise: Of the results: "fitted", or "known": taken from ``Observations.noise_sd``.
    """

    uses_physics: ClassVar[bool] = False
    uses_earlier: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.EARLIER})

    kernel: Kernel = "matern52"
    noise: Literal["fitted", "known"] = "fitted"

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> CoupledPosterior:
        """Fit to data (see Surrogate.fit). A fit takes seconds at most: ``start`` is not needed.

        Raises:
            ValueError: there are no earlier results, more than 2,000 of one campaign or 2,000 trials, noise is "known"
                and the data state none, or a process cannot be fitted.
        """
        if not data.earlier:
            raise ValueError(
                "The campaign has no earlier one and surrogate warm_gp needs one: name it in `warm_start`, or use "
                "surrogate exact_gp."
            )
        if len(data) > _MOST:
            raise ValueError(f"There are {len(data)} trials, and warm_gp takes {_MOST}: use exact_gp or auto.")
        if (count := max(len(each.X) for each in data.earlier)) > MOST_EARLIER:
            raise ValueError(
                f"An earlier campaign has {count} results, and warm_gp takes {MOST_EARLIER}: leave it out."
            )
        if self.noise == "known" and data.noise_variance is None:
            raise ValueError(
                'noise is "known" but these observations state none of all results, and warm_gp does not use that of '
                'single ones: give the problem\'s noise, or "fitted".'
            )
        made = [self._one(number, data, rng) for number in range(len(data.earlier))]
        best = max(made, key=lambda each: float(each.log_predictive().sum()))
        report(1, best.metrics, best.state)
        return best

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> CoupledPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        number = int(state[_CHOSEN])
        earlier = data.earlier[number]
        source = self._source().restore(_observed(earlier, data), part(state, _SOURCE))
        assert isinstance(source, ExactPosterior)  # n_exact is the most results that this takes
        rho, size, noise, density, *scales = state[_FOUND].tolist()
        return self._posterior(number, data, source, Coupled(rho, size, np.array(scales), noise, density))

    def _one(self, number: int, data: Observations, rng: np.random.Generator) -> CoupledPosterior:
        """The process that begins with one of the earlier campaigns."""
        earlier = data.earlier[number]
        source = self._source().fit(_observed(earlier, data), rng, None, no_report)
        assert isinstance(source, ExactPosterior)
        X = torch.tensor(data.X)
        with torch.no_grad():
            mean, covariance = source.mean(X).numpy(), earlier_covariance(source, X, X).numpy()
        noise = known_noise(data) if self.noise == "known" else None
        found = Density(self.kernel, data.X, data.targets, mean, covariance, noise).maximised()
        return self._posterior(number, data, source, found)

    def _posterior(self, number: int, data: Observations, source: ExactPosterior, found: Coupled) -> CoupledPosterior:
        kept = [found.rho, found.size, found.noise, found.log_posterior, *found.scales]
        state = {
            **stamped(data),
            _CHOSEN: torch.tensor(number),
            _FOUND: torch.tensor(kept, dtype=torch.float64),
            **named(_SOURCE, source.state()),
        }
        name, targets = data.earlier[number].name, torch.tensor(data.targets)
        return CoupledPosterior(source, name, found, self.kernel, torch.tensor(data.X), targets, data.scaling, state)

    def _source(self) -> ExactGP:
        return ExactGP(kernel=self.kernel, restarts=1)


def _observed(earlier: EarlierResults, data: Observations) -> Observations:
    """Earlier results of one output as observations."""
    return Observations(earlier.X, earlier.Y[:, 0], data.maximize, images=data.images)
