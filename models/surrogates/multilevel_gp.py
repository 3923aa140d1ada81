"""Gaussian process of all levels of a simulator (Kennedy and O'Hagan, 2000)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fieldcraft.models.capability import Capability
from fieldcraft.models.gaussian.fit import known_noise
from fieldcraft.models.levels.fit import fitted, posterior
from fieldcraft.models.levels.process import LevelsPosterior, Term
from fieldcraft.models.linear.fourier_features import Kernel
from fieldcraft.models.numerics.digests import refuse_other_data, stamped
from fieldcraft.models.observations import LevelResults, Observations
from fieldcraft.models.surrogate import Report

_MOST = 2000
_TARGET = -1  # number of the target among the levels of a state
_LEVELS, _FOUND, _READ = "levels", "found", "read"


@dataclass(frozen=True)
class MultilevelGP:
    """Results of the target as a factor times the level below plus a Gaussian process, from level to level.

    Each factor is fitted and may be 0: a coarse level that misleads then says nothing. Of the chain of all levels and
    of each level alone that counts by which the target's results, each given the others, are predicted best. While no
    level has a result, it is a process of the target alone.

    Where the runs of levels left fields, their outputs are read from these on the target's mesh, or taken as they are,
    by the same measure: a maximum over coarse cells jumps from design to design, and that of a field which was
    interpolated to fine ones hardly does. Where the problem has an emulator, the cheapest level is a factor times its
    prediction plus a Gaussian process, if that predicts the results of this level better by 3 nats, each given the
    others.

    Args:
        kernel: Covariance of the cheapest level and of each difference, "matern52", "matern32", "matern12" or "rbf".
        noise: Of the target's results: "fitted", or "known": taken from ``Observations.noise_sd``.
    """

    uses_physics: ClassVar[bool] = False
    uses_levels: ClassVar[bool] = True
    uses_emulator: ClassVar[bool] = True
    uses_fields: ClassVar[bool] = True
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.LEVELS})

    kernel: Kernel = "matern52"
    noise: Literal["fitted", "known"] = "fitted"

    def fit(
        self, data: Observations, rng: np.random.Generator, start: Mapping[str, Tensor] | None, report: Report
    ) -> LevelsPosterior:
        """Fit to data (see Surrogate.fit). A fit takes seconds at most: ``start`` is not needed.

        Raises:
            ValueError: more than 2,000 results, noise is "known" and the data state none, or a process cannot be
                fitted.
        """
        if (count := len(data) + sum(len(each.X) for each in data.lower)) > _MOST:
            raise ValueError(f"There are {count} results of all levels, and multilevel_gp takes {_MOST}: use exact_gp.")
        if self.noise == "known" and data.noise_variance is None:
            raise ValueError(
                'noise is "known" but these observations state none of all results, and multilevel_gp does not use '
                'that of single ones: give the problem\'s noise, or "fitted".'
            )
        noise = known_noise(data) if self.noise == "known" else None
        made = [
            self._posterior(data, fitted(self.kernel, _seen(data, read=read), chain, noise), read=read)
            for read in ([True, False] if _left_fields(data) else [False])
            for chain in _chains(_seen(data, read=read).lower)
        ]
        best = max(made, key=lambda each: float(each.log_predictive().sum()))
        report(1, best.metrics, best.state)
        return best

    def restore(self, data: Observations, state: Mapping[str, Tensor]) -> LevelsPosterior:
        """The posterior whose state this was (see Surrogate.restore)."""
        refuse_other_data(data, state)
        levels = [None if number == _TARGET else number for number in state[_LEVELS].tolist()]
        terms = tuple(
            Term(level, rho, size, np.array(scales), noise, constant)
            for level, (rho, size, noise, constant, *scales) in zip(levels, state[_FOUND].tolist(), strict=True)
        )
        return self._posterior(data, terms, read=_READ in state)

    def _posterior(self, data: Observations, terms: tuple[Term, ...], *, read: bool) -> LevelsPosterior:
        numbers = [_TARGET if term.level is None else term.level for term in terms]
        state = {
            **stamped(data),
            _LEVELS: torch.tensor(numbers),
            _FOUND: torch.tensor([term.numbers() for term in terms], dtype=torch.float64),
        }
        if read:
            state[_READ] = torch.tensor(True)
        made = posterior(self.kernel, _seen(data, read=read), terms)
        return replace(made, kept=state, remarks={"levels": _said(terms, read=read)})


def _left_fields(data: Observations) -> bool:
    """True if the outputs of all levels were read from fields, too."""
    return bool(data.lower) and all(each.read is not None for each in data.lower)


def _seen(data: Observations, *, read: bool) -> Observations:
    """The data with the outputs of levels as they were read on the target's mesh, or as they are."""
    lower = (each if each.read is None else replace(each, Y=each.read) for each in data.lower)
    return replace(data, lower=tuple(lower)) if read else data


def _said(terms: Sequence[Term], *, read: bool) -> str:
    """Remark on the levels that count."""
    first, last = terms[0], terms[-1]
    if len(terms) == 1:
        said, cheapest = "none has a result: the target alone", "it"
    else:
        named, cheapest = " and ".join(f"level {term.level}" for term in terms[:-1]), f"level {first.level}"
        said = f"{named}{', read on the mesh of the target' if read else ''}"
        said += f"; the target is {_difference(last, f'level {terms[-2].level}')}"
    return f"{said}; {cheapest} is {_difference(first, 'the emulator')}" if first.rho else said


def _difference(term: Term, before: str) -> str:
    return f"{term.rho:.3g} times {before}, and a difference of {term.size**0.5:.2g} standard deviations"


def _chains(lower: Sequence[LevelResults]) -> list[Sequence[LevelResults]]:
    """All levels, and each alone; none if no level has results."""
    return [lower, *([each] for each in lower)] if len(lower) > 1 else [lower]
